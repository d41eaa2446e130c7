"""From a lost worker back to pending; runs on every replica, leading or not.

The scripts check the lease again and work by token, so replicas that see the same lapse do not
disturb each other. When a lapse may be acted upon, and when it is charged, is in ``contact.py``.

A task that kills its process takes along whatever the worker holds beside it (where tasks share one
process), and the store cannot tell which of them it was. So those that are lost again come back one
at a time, over half a lease: the others end before the next worker dies, and only the one that
kills spends its budget.

Three kinds of leftovers are looked for: deliveries of a worker whose lease ran out (the worker is
forgotten in the step that finds it empty), entries on the exec stream of a queue that has had no
worker for a whole lease, and what a lost stream or consumer group left behind. The second and third
are one script per queue and run every half lease.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tq_celery.errors import StoreError, StoreUnavailableError
from tq_celery.logs import Log
from tq_celery.scheduler.contact import Contact
from tq_celery.scheduler.loop import Loop, Quiet
from tq_celery.scheduler.stats import SchedulerStats
from tq_celery.store.contract import LeaderStore, WorkerAnnouncement

__all__ = ["Reclaim"]

Item = TypeVar("Item")

#: Looks at the leases per lease. A killed worker's tasks are back after its lease and one of these.
LOOKS = 6
#: Part of a lease over which tasks come back that were lost before: the last of them within two.
SPREAD = 0.5
#: Most seconds between two looks.
LONGEST_REST = 5.0

log = Log("tq_celery.scheduler")


class Reclaim(Loop):
    """Looks at all leases, and takes back what lapsed workers and lost streams hold."""

    name = "reclaim"

    def __init__(
        self,
        store: LeaderStore,
        stats: SchedulerStats,
        quiet: Quiet,
        *,
        lease: float,
        budget: int,
        batch: int,
        hear: Callable[[list[WorkerAnnouncement]], None] = lambda workers: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``lease`` in seconds; the ``budget``-th counted loss of a task buries it.

        ``hear`` gets the announcements of every look: a standby learns of epochs by them.
        """
        super().__init__(stats.loop(self.name), quiet)
        self._store = store
        self._counts = stats
        self._lease = lease
        self._budget = budget
        self._batch = batch
        self._spread = round(lease * SPREAD * 1000)
        self._hear = hear
        self._clock = clock
        self._rest = min(LONGEST_REST, lease / LOOKS)
        self._contact = Contact(lease, longest_gap=max(1.0, 2.5 * self._rest))
        self._sweep_at = 0.0

    def run_once(self) -> float:
        """Look once at every lease, and at every queue when that is due."""
        workers, now = self._store.workers()
        self._hear(workers)
        at = self._clock()
        self._contact.answered(now, at)
        if self._contact.settled(at):
            for worker in workers:
                if worker.expires <= now and not self.stopping:
                    self._apart(self._take_back, worker)
            if at >= self._sweep_at:
                self._sweep_at = at + self._lease / 2
                self._sweep()
        return self._rest

    def recover(self) -> None:
        """A failed call breaks the contact."""
        self._contact.broken()

    def _apart(self, step: Callable[[Item], None], item: Item) -> None:
        """Do ``step``; a script error is reported and must not hold up the recovery of the rest."""
        try:
            step(item)
        except StoreUnavailableError:
            raise
        except StoreError as error:
            self._report(error, self._rest)

    def _take_back(self, worker: WorkerAnnouncement) -> None:
        counted = self._contact.counts(worker.expires)
        total = 0
        while not self.stopping:
            taken = self._store.reclaim(
                worker.worker, self._budget, counted, self._batch, self._spread
            )
            if taken < 0:
                return  # it has renewed since
            total += taken
            self._counts.reclaimed += taken
            if taken < self._batch:
                break
        log.warning("worker lost", worker=worker.worker, deliveries=total, counted=counted)

    def _sweep(self) -> None:
        """Take back what no worker will read; the script knows which queues have workers."""
        for queue in self._store.queues():
            self._apart(self._sweep_queue, queue)

    def _sweep_queue(self, queue: str) -> None:
        age = round(self._lease * 1000)
        while not self.stopping:
            taken = self._store.reclaim_orphans(queue, age, self._batch)
            self._counts.orphans += max(0, taken)
            if taken <= 0:
                break
