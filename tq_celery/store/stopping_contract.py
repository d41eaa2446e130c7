"""What stops, lists and takes out tasks: the part of a store that is nobody's in particular.

A task is stopped in two steps that leave no gap: its id is **marked** first, then it is looked for
and removed. Whatever moves in between meets the mark: ``submit`` settles a marked task at once, and
a worker is told about the mark with what it fetches (:attr:`Delivery.revoked`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from tq_celery.store.record import TaskKey

__all__ = [
    "MAX_MARKS",
    "MARK_EXPIRES",
    "Delayed",
    "Drained",
    "Found",
    "Located",
    "Removal",
    "StoppingStore",
    "Where",
]

#: How long a revoked id is remembered, in ms: Celery's ``REVOKE_EXPIRES``.
MARK_EXPIRES = 10_800_000
#: How many revoked ids, and how many stamps, are remembered: Celery's ``REVOKES_MAX``.
MAX_MARKS = 50_000

#: The structures that work can be taken out of; ``exec`` only while no worker has read it.
Where = Literal["ingress", "delayed", "pending", "exec"]


class Located(NamedTuple):
    """The newest live key of a task id, and whose it is. ``at`` is when it was taken or is due."""

    key: TaskKey
    queue: str
    tenant: bytes
    at: int


class Removal(NamedTuple):
    """One task to take out, by its exact place.

    ``member`` is the entry's id in ``ingress`` and ``exec``, and the member of the sorted set in
    ``delayed`` and ``pending`` (a re-ranking's ``outdated`` set included).
    """

    where: Where
    queue: str
    tenant: bytes
    member: bytes


class Found(NamedTuple):
    """A task that waits, and where."""

    item: Removal
    key: bytes


class Delayed(NamedTuple):
    """A task that is not due: ``key`` as bytes, ``due`` in ms of the store's clock."""

    id: str
    queue: str
    tenant: bytes
    due: int
    priority: int
    attempts: int
    key: bytes


class Drained(NamedTuple):
    """A task on its way out of the namespace; ``due`` is 0 unless it was delayed."""

    key: bytes
    queue: str
    tenant: bytes
    due: int
    priority: int
    payload: bytes | None


class StoppingStore(Protocol):
    """What an operator or a producer needs to stop tasks. Nothing here takes an epoch."""

    def locate(self, ids: Sequence[str]) -> dict[str, Located]:
        """Return where to look for the tasks with these ids; unknown and ended ones are absent."""

    def revoke(
        self, ids: Sequence[str], *, reason: str = "revoked", expires: int = MARK_EXPIRES
    ) -> dict[str, str]:
        """Mark the ids for ``expires`` ms, then remove those that wait.

        Returns for each id ``revoked`` (removed now; its obituary is on the way), ``dispatched`` (a
        worker has it: the worker decides by the mark) or ``unknown`` (remembered). Safe to repeat.
        At most :data:`MAX_MARKS` marks are kept; the ones that end first make room.
        """

    def revoke_stamped(
        self,
        stamps: Mapping[str, Sequence[str]],
        *,
        reason: str = "revoked",
        expires: int = MARK_EXPIRES,
    ) -> int:
        """Mark values of stamped headers, then remove what waits with one; returns how many.

        Reads the message of everything that waits, in bounded steps. What carries
        such a stamp and is in nobody's hands yet is found by the worker's fetch.
        """

    def purge(
        self,
        queues: Sequence[str] | None = None,
        *,
        tenant: bytes | None = None,
        reason: str = "purged",
    ) -> int:
        """Remove what waits in the queues (all by default), of one tenant or all; returns how many.

        Each ends as ``revoked``. Tasks that a worker has read go on; tasks that arrive during the
        purge may stay.
        """

    def remove(self, items: Sequence[Removal], *, reason: str = "revoked") -> list[bool]:
        """Remove exact members, each in one step with everything that counts it.

        ``False`` marks a member that was not there any more, which changed nothing.
        """

    def delayed(self, queues: Sequence[str] | None = None, limit: int = 100) -> list[Delayed]:
        """Return up to ``limit`` delayed tasks, soonest first; bounded in what it looks at."""

    def messages(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the stored messages of the keys; ``None`` for one that is gone."""

    def drain(self, items: Sequence[Removal]) -> list[bool]:
        """Move exact members into ``draining``: settled as ``drained``, and to be published."""

    def draining(self, count: int) -> list[Drained]:
        """Return up to ``count`` tasks that were drained and are not known to be published."""

    def close_drained(self, keys: Sequence[bytes]) -> int:
        """Forget drained tasks that have been published, and their payloads."""

    def waiting(
        self,
        queues: Sequence[str] | None = None,
        *,
        tenant: bytes | None = None,
        exec_too: bool = True,
    ) -> Iterator[list[Found]]:
        """Yield what waits in bounded batches, in the order in which tasks move through."""
