"""From ranked arrivals to pending: the write side of admission."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tq_celery.errors import StoreError, StoreUnavailableError
from tq_celery.scheduler.arrivals import Batch, Handover
from tq_celery.scheduler.leader import Leadership
from tq_celery.scheduler.loop import Quiet
from tq_celery.scheduler.ranking import RankingBox
from tq_celery.scheduler.stats import SchedulerStats
from tq_celery.scheduler.term import TermLoop
from tq_celery.store.contract import Admission, Arrival, LeaderStore

__all__ = ["Admit"]

#: Seconds to rest without a batch; the reader wakes this loop when it has one.
REST = 30.0


class Admit(TermLoop):
    """Moves ranked batches from ingress to pending, and unreadable entries to the dead letters."""

    name = "admit"

    def __init__(
        self,
        store: LeaderStore,
        leadership: Leadership,
        stats: SchedulerStats,
        quiet: Quiet,
        *,
        ranking: RankingBox,
        handover: Handover,
        admitted: Callable[[], None],
        switched: Callable[[], None],
    ) -> None:
        """``admitted`` is called after a move, ``switched`` when the policy is another by now."""
        super().__init__(leadership, stats.loop(self.name), quiet)
        self._store = store
        self._counts = stats
        self._ranking = ranking
        self._handover = handover
        self._admitted = admitted
        self._switched = switched

    def begin(self, epoch: int) -> None:
        """Nothing is kept between terms: the reader starts the handover anew."""

    def step(self, epoch: int) -> float:
        """Admit one batch."""
        batch = self._handover.take()
        if batch is None:
            return REST
        if not self.leads(epoch):
            self._handover.restart()
            return 0.0
        if batch.unreadable:
            self._counts.buried += self._store.bury_ingress(epoch, batch.unreadable)
        if batch.ranked:
            self._admit(epoch, batch)
        return 0.0

    def recover(self) -> None:
        """Have everything that is still in ingress read again."""
        super().recover()
        self._handover.restart()

    def _admit(self, epoch: int, batch: Batch) -> None:
        try:
            moved = self._store.admit(epoch, batch.generation, batch.ranked)
        except StoreUnavailableError:
            raise
        except StoreError:
            moved = self._admit_apart(epoch, batch.generation, batch.ranked)
        if moved < 0:
            self._ranking.forget()
            self._handover.restart()
            self._switched()
            return
        self._counts.admitted += moved
        self._admitted()

    def _admit_apart(self, epoch: int, generation: int, items: Sequence[Admission]) -> int:
        """Admit one by one after a script error, and bury the entries that cause it.

        One entry that the script cannot take must hold up neither its batch nor the leader.
        """
        moved = 0
        for item in items:
            try:
                one = self._store.admit(epoch, generation, [item])
            except StoreUnavailableError:
                raise
            except StoreError as error:
                buried = Arrival(item.entry, item.queue, item.tenant, item.record, None, str(error))
                self._counts.buried += self._store.bury_ingress(epoch, [buried])
                continue
            if one < 0:
                return one
            moved += one
        return moved
