"""What the workers of a namespace offer now, as the dispatcher uses it.

Two questions are answered from the announcements: how much may be dispatched where (only workers
whose lease is current count) and which queues share workers, and therefore tags under a fair policy
(*groups*). Credit follows the workers at once. Groups follow with a delay: a worker that restarts
would otherwise split a group and join it again, and each change starts the fair shares anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tq_celery.scheduler.credit import Component, components, pool_offers
from tq_celery.store.contract import WorkerAnnouncement

__all__ = ["Workforce", "groups_of"]


class Workforce:
    """Announcements turned into components and groups. ``linger`` in seconds, usually a lease."""

    def __init__(self, linger: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._linger = linger
        self._clock = clock
        self._last_seen: dict[frozenset[str], float] = {}
        self.components: list[Component] = []
        self.groups: dict[str, str] = {}

    def update(self, workers: Iterable[WorkerAnnouncement], now: int) -> None:
        """Take over announcements read at ``now``, ms on the store's clock."""
        offers = pool_offers(worker for worker in workers if worker.expires > now)
        self.components = components(offers)
        at = self._clock()
        self._last_seen.update(dict.fromkeys(offers, at))
        self._last_seen = {
            queues: seen for queues, seen in self._last_seen.items() if at - seen < self._linger
        }
        self.groups = groups_of(self._last_seen)


def groups_of(queue_sets: Iterable[frozenset[str]]) -> dict[str, str]:
    """Return queue -> group: queues that share workers, named after their smallest queue."""
    return {
        queue: component.queues[0]
        for component in components(dict.fromkeys(queue_sets, 0))
        for queue in component.queues
    }
