"""The leader's accounts: the time of the slots, and what is kept of each tenant.

Scripts add what a task was worth to its tenant's :class:`Served` when they settle it. The leader
looks at the accounts every few seconds: it says which tenants have series of their own, lets the
records of those go that have had no tasks for long, and adds up the time of the slots.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple, Protocol

__all__ = [
    "HOUR",
    "LONGEST",
    "MOST_CONFIGURED",
    "MOST_READ",
    "MOST_SERVED",
    "SERVED",
    "Accounts",
    "AccountsStore",
    "Change",
    "Served",
]

#: Most tenants that settling keeps records of; what others are served is counted as `other` alone.
MOST_SERVED = 5_000
#: Most tenants of each kind, and workers, that are read by the accounts and by a scrape alike.
MOST_READ = 5_000
#: Most tenants that are shown for their settings.
MOST_CONFIGURED = 1_000
#: Ms of an hour, and the bound of a wait that stands behind its hour in a queue's longest wait.
HOUR, LONGEST = 3_600_000, 10**10
#: A record of ``service``: the fields of :class:`Served`.
SERVED = struct.Struct(">QQQQB")

#: What becomes of a tenant's record. One with live tasks is not forgotten.
Change = Literal["shown", "hidden", "forgotten"]


class Served(NamedTuple):
    """What a tenant got since its record began.

    ``micros`` is the time that its settled tasks ran, microseconds, as far as workers reported it;
    ``waits`` counts those that had been dispatched and ``waited`` is how long they had waited for
    that in all, ms. ``last`` is when the last one ended. ``shown`` is 1 for a tenant that has
    series of its own; what the others get is counted as ``other`` as well.
    """

    micros: int = 0
    waits: int = 0
    waited: int = 0
    last: int = 0
    shown: int = 0


class Accounts(NamedTuple):
    """The accounts at ``now``, ms.

    ``slots`` are those of live workers and ``busy`` those of them that have a delivery; ``live``
    are the tenants among the ``served`` that have live tasks, ``configured`` those with a weight, a
    cap or a pause.
    """

    now: int
    slots: int
    busy: int
    served: Mapping[bytes, Served]
    live: Collection[bytes]
    configured: Collection[bytes]


class AccountsStore(Protocol):
    """What keeping accounts needs of a store."""

    def accounts(self) -> Accounts:
        """Return the accounts as they are; the parts are read one after the other."""

    def account(
        self, epoch: int, slots: int, busy: int, longest: int, changes: Mapping[bytes, Change]
    ) -> int:
        """Count the time of the slots since the last call, and change up to a batch of records.

        Of the time no more than ``longest`` ms counts; returns how much did. Raises FencedError.
        """
