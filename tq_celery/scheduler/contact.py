"""Whether this process has been in unbroken contact with the store, and since when.

Leases are times on the store's clock. They run on while the server is down, while it is frozen and
while its host is suspended, and workers that could not renew during that time have not died. So a
lapsed lease means something only to an observer that has itself reached the server all the while,
and could have written to it: a replica or a full disk answers and takes no renewals.

A *contact* begins with the first answer and is broken by a failed call, by a gap between two
answers that is longer than ``longest_gap``, and by a step of the store's clock: when its time and
the monotonic clock of this process disagree by more than that about how long ago the last answer
was. Every break starts a new contact.

Two rules follow.

* Nothing is reclaimed before the contact is one whole lease old. By then every worker that is alive
  has renewed, whatever happened before.
* A loss *counts* against a task's delivery budget only when the worker has renewed during the
  present contact (``expires - lease >= since``). Otherwise its last sign of life lies before the
  contact, and what ended it may have been the outage itself.
"""

from __future__ import annotations

__all__ = ["Contact"]


class Contact:
    """See the module. ``lease`` and ``longest_gap`` in seconds."""

    def __init__(self, lease: float, longest_gap: float) -> None:
        self._lease = lease
        self._longest_gap = longest_gap
        self._since: float | None = None
        self._since_ms = 0
        self._last = 0.0
        self._last_ms = 0

    def answered(self, store_ms: int, at: float) -> None:
        """Note an answer: the store's clock in ms, and when it came on the monotonic clock."""
        if self._since is not None:
            gap = at - self._last
            drift = abs((store_ms - self._last_ms) / 1000 - gap)
            if gap > self._longest_gap or drift > self._longest_gap:
                self._since = None
        if self._since is None:
            self._since, self._since_ms = at, store_ms
        self._last, self._last_ms = at, store_ms

    def broken(self) -> None:
        """Note a call that failed."""
        self._since = None

    def settled(self, at: float) -> bool:
        """Whether the contact is one whole lease old."""
        return self._since is not None and at - self._since >= self._lease

    def counts(self, expires: int) -> bool:
        """Whether the lapse of a lease that ran out at ``expires`` (store's ms) is counted."""
        return self._since is not None and expires - self._lease * 1000 >= self._since_ms
