"""From pending to exec: as fast as slots free up, and no faster.

The loop rests until something can have changed: a task was admitted, a settled delivery freed the
credit that the last dispatch lacked, a worker announced something else. A lane (queues that share
workers) that was left starved is not looked at again when tasks are admitted, only when credit
comes: the step that found no credit left a mark, and the next settling finds it and wakes the
leader. Announcements are read again every second whatever happens, which also bounds how long a
lost wake-up or a lapsed worker goes unnoticed.

Between two dispatches the loop does one bounded step of re-ranking while a switch is under way.
"""

from __future__ import annotations

import threading
import time

from tq_celery.scheduler.lanes import Lane, Unscheduled, lane_of
from tq_celery.scheduler.leader import Leadership
from tq_celery.scheduler.loop import Quiet
from tq_celery.scheduler.ranking import RankingBox
from tq_celery.scheduler.rerank import Rerank
from tq_celery.scheduler.stats import SchedulerStats
from tq_celery.scheduler.term import TermLoop
from tq_celery.scheduler.workers import Workforce
from tq_celery.store.contract import LeaderStore

__all__ = ["ADMITTED", "Dispatch"]

#: The wake of a task that was admitted or promoted; all others come from the store.
ADMITTED = "admitted"
#: Seconds after which announcements are read again, woken or not.
REFRESH = 1.0
#: Seconds after which a refused regrouping is tried again.
ASK_AGAIN = 0.05
#: Wakes after which tasks may wait with ranks of an older generation: a switch, and work of the
#: time before it that came back.
MAY_OUTDATE = frozenset({"config", "returned", "workers"})


class Dispatch(TermLoop):
    """Moves the best heads to exec streams; see the module."""

    name = "dispatch"

    def __init__(
        self,
        store: LeaderStore,
        leadership: Leadership,
        stats: SchedulerStats,
        quiet: Quiet,
        *,
        ranking: RankingBox,
        batch: int,
        workforce: Workforce,
    ) -> None:
        super().__init__(leadership, stats.loop(self.name), quiet)
        self._store = store
        self._counts = stats
        self._ranking = ranking
        self._batch = batch
        self._workforce = workforce
        self._rerank = Rerank(store, ranking, stats, batch)
        self._lock = threading.Lock()
        self._wakes: set[str] = set()
        self._lanes: list[Lane] = []
        self._due: list[Lane] = []
        self._groups: dict[str, str] = {}
        self._refresh_at = 0.0

    def notify(self, *kinds: str) -> None:
        """Say what may have changed; safe to call from any thread."""
        with self._lock:
            self._wakes.update(kinds)
        self.wake()

    def begin(self, epoch: int) -> None:
        """Read everything anew, and look for a switch that an earlier leader left unfinished."""
        self._groups = {}
        self._refresh_at = 0.0
        self._rerank.pending = True

    def step(self, epoch: int) -> float:
        """Take in what changed, then dispatch one batch a lane and re-rank one batch."""
        self._take_wakes(epoch)
        if self._rerank.pending and self.leads(epoch):
            self._rerank.step(epoch)
            self._due = list(self._lanes)
        for lane in self._due:
            if not self.leads(epoch):
                return 0.0
            self._counts.dispatched += lane.dispatch(self._store, epoch, self._batch)
            self._counts.dispatch_calls += 1
        self._due = [lane for lane in self._due if lane.more]
        if self._due or self._rerank.pending:
            return 0.0
        return max(0.0, self._refresh_at - time.monotonic())

    def _take_wakes(self, epoch: int) -> None:
        with self._lock:
            wakes, self._wakes = self._wakes, set()
        if "config" in wakes:
            self._ranking.forget()
        if wakes & MAY_OUTDATE:
            self._rerank.pending = True
        if time.monotonic() >= self._refresh_at or wakes & {"config", "workers"}:
            self._refresh(epoch)
        elif wakes - {ADMITTED}:
            self._due = list(self._lanes)
        elif wakes:
            self._due = [lane for lane in self._lanes if lane.more or not lane.starved]

    def _refresh(self, epoch: int) -> None:
        """Read what workers offer; tell the store which queues share workers when that changed."""
        self._refresh_at = time.monotonic() + REFRESH
        workers, now = self._store.workers()
        self._leadership.hear(workers)
        self._workforce.update(workers, now)
        if self._workforce.groups != self._groups:
            changed = self._store.regroup(epoch, self._workforce.groups)
            if changed:  # regrouped heads have to be placed anew
                self._rerank.pending = True
            if changed < 0:
                # Refused while a re-ranking is under way. Queues that are to be joined must not be
                # dispatched together before they are: keep the lanes and ask again.
                self._refresh_at = time.monotonic() + ASK_AGAIN
                return
            self._groups = self._workforce.groups
        if self._ranking.read(self._store).policy.between == "none":
            self._lanes = [Unscheduled(self._store.queues())]
        else:
            self._lanes = [lane_of(component) for component in self._workforce.components]
        self._due = list(self._lanes)
