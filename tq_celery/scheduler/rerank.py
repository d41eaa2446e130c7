"""After a switch of the policy: give waiting tasks new ranks, a bounded batch at a time.

A switch sets the heads of every tenant aside in one step, so nothing is dispatched by an old rank.
Each call here returns some of one tenant's tasks to the order; a tenant competes again from its
first batch on. The dispatcher does one call between two dispatches: neither waits for the other,
and a process that dies in the middle leaves the rest for the next leader.
"""

from __future__ import annotations

import struct

from tq_celery.scheduler.ranking import RankingBox, rank_record
from tq_celery.scheduler.stats import SchedulerStats
from tq_celery.store.contract import LeaderStore
from tq_celery.store.record import MAX_SCORE

__all__ = ["Rerank"]


class Rerank:
    """Re-ranks while there is something stale; ``pending`` says whether there may be."""

    def __init__(
        self, store: LeaderStore, ranking: RankingBox, stats: SchedulerStats, batch: int
    ) -> None:
        self._store = store
        self._ranking = ranking
        self._counts = stats
        self._batch = batch
        self.pending = True

    def step(self, epoch: int) -> None:
        """Re-rank one batch; clears ``pending`` when nothing is left."""
        tenants = self._store.stale(self._batch)
        if not tenants:
            self.pending = False
            return
        policy, generation = self._ranking.read(self._store)
        for queue, tenant, members in tenants:
            ranks = []
            for member, _ in members:
                try:
                    ranks.append((member, rank_record(policy, member)))
                except struct.error:  # not ours, but it must not hold up its tenant
                    ranks.append((member, float(MAX_SCORE)))
            if self._store.rerank(epoch, generation, queue, tenant, ranks) < 0:
                self._ranking.forget()
                return
            self._counts.reranked += len(ranks)
