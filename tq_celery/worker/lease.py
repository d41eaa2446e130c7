"""The worker's hold on its deliveries: renewed while the process lives, on the store's clock.

A lease says "alive", not "fast": a task may run for days. Whoever cannot renew for a whole lease
has lapsed; schedulers take its deliveries back. When it can renew again, what it has not started
is no longer its own to start.
"""

from __future__ import annotations

from time import monotonic

from tq_celery.store.contract import WorkerAnnouncement, WorkerStore

__all__ = ["Lease"]

#: Renewals per lease.
RENEWALS = 3
#: Most seconds between two renewals: to a server that was emptied, or whose clock jumped ahead, the
#: worker's slots are unknown until the next one.
LONGEST_REST = 3.0


class Lease:
    """When to renew, whether the lease has lapsed, and what time it is at the store."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        #: Monotonic seconds until which the lease surely holds; 0 before the first renewal.
        self.until = 0.0
        self._due = 0.0
        self._offset = 0.0
        #: What the store was told last.
        self.announced: WorkerAnnouncement | None = None

    def due(self, now: float) -> float:
        """Seconds until the next renewal."""
        return max(0.0, self._due - now)

    def renew(self, store: WorkerStore, announcement: WorkerAnnouncement) -> bool:
        """Renew and announce; ``False`` when the lease had lapsed or the worker is new.

        Raises StoreUnavailableError.
        """
        started = monotonic()
        reply = store.renew(announcement, int(self.seconds * 1000))
        ended = monotonic()
        self._offset = reply.now - (started + ended) * 500.0
        # The server counted from some moment after `started`.
        held = started <= self.until and reply.status == "renewed"
        self.until = started + self.seconds
        self._due = started + min(self.seconds / RENEWALS, LONGEST_REST)
        self.announced = announcement
        return held

    def extended(self, started: float) -> None:
        """Note a renewal by the renewer process that began at ``started``."""
        self.until = max(self.until, started + self.seconds)

    def changed(self, announcement: WorkerAnnouncement) -> bool:
        """Whether the store knows another announcement."""
        return announcement != self.announced

    def store_time(self, seconds: float) -> float:
        """Convert monotonic seconds to ms on the store's clock; 0 stays 0."""
        return seconds * 1000.0 + self._offset if seconds else 0.0
