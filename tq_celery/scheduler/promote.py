"""From delayed to pending: ranks what has become due and sleeps until the next is.

The store's clock decides what is due and how long it is until the next due time; this process only
sleeps that long. The sleep is cut to :data:`LONGEST_REST`, so a step of the server's clock or a
lost wake-up makes a task late by no more than that.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from tq_celery.errors import StoreError, StoreUnavailableError
from tq_celery.policies.contract import Policy
from tq_celery.scheduler.leader import Leadership
from tq_celery.scheduler.loop import Quiet
from tq_celery.scheduler.ranking import RankingBox, check_values, rank_record
from tq_celery.scheduler.stats import SchedulerStats
from tq_celery.scheduler.term import TermLoop
from tq_celery.store.contract import DueTask, LeaderStore, Promotion
from tq_celery.store.record import RECORD

__all__ = ["LONGEST_REST", "Promote", "rank_all_due", "rank_due"]

#: Seconds between two looks at the delayed set at most.
LONGEST_REST = 0.8


class Promote(TermLoop):
    """Moves due tasks, most urgent first within one instant, through the policy like new ones."""

    name = "promote"

    def __init__(
        self,
        store: LeaderStore,
        leadership: Leadership,
        stats: SchedulerStats,
        quiet: Quiet,
        *,
        ranking: RankingBox,
        batch: int,
        promoted: Callable[[], None],
        switched: Callable[[], None],
    ) -> None:
        """``promoted`` is called after a move, ``switched`` when the policy is another by now."""
        super().__init__(leadership, stats.loop(self.name), quiet)
        self._store = store
        self._counts = stats
        self._ranking = ranking
        self._batch = batch
        self._promoted = promoted
        self._switched = switched

    def begin(self, epoch: int) -> None:
        """Nothing is kept between terms."""

    def step(self, epoch: int) -> float:
        """Promote one batch; rest until the next due time when there is none."""
        due, until_next = self._store.due(self._batch)
        if not due:
            rest = LONGEST_REST if until_next is None else until_next / 1000
            # One millisecond at least: the store rounds down what is left of the present one.
            return min(LONGEST_REST, max(0.001, rest))
        policy, generation = self._ranking.read(self._store)
        if not self.leads(epoch):
            return 0.0
        ranked, unreadable = rank_all_due(policy, due)
        if unreadable:
            self._counts.buried_delayed += self._store.bury_delayed(epoch, unreadable)
        moved = self._promote(epoch, generation, ranked, due) if ranked else 0
        if moved < 0:
            self._ranking.forget()
            self._switched()
            return 0.0
        self._counts.promoted += moved
        self._promoted()
        return 0.0

    def _promote(
        self, epoch: int, generation: int, ranked: Sequence[Promotion], due: Sequence[DueTask]
    ) -> int:
        """Promote a batch; after a script error one by one, and bury those that cause it."""
        try:
            return self._store.promote(epoch, generation, ranked)
        except StoreUnavailableError:
            raise
        except StoreError:
            tasks = {task.member: task for task in due}
        moved = 0
        for item in ranked:
            try:
                one = self._store.promote(epoch, generation, [item])
            except StoreUnavailableError:
                raise
            except StoreError as error:
                buried = tasks[item.member]._replace(reason=str(error))
                self._counts.buried_delayed += self._store.bury_delayed(epoch, [buried])
                continue
            if one < 0:
                return one
            moved += one
        return moved


def rank_all_due(policy: Policy, due: Sequence[DueTask]) -> tuple[list[Promotion], list[DueTask]]:
    """Rank what can be read; return it and, with a reason, what cannot."""
    ranked: list[Promotion] = []
    unreadable: list[DueTask] = []
    for task in due:
        if task.reason:
            unreadable.append(task)
            continue
        try:
            _, _, cost, _, deadline, *_ = RECORD.unpack_from(task.record)
            check_values(cost, deadline, task.tenant)
            ranked.append(rank_due(policy, task))
        except (struct.error, ValueError, ArithmeticError) as error:
            unreadable.append(task._replace(reason=f"{type(error).__name__}: {error}"))
    return ranked, unreadable


def rank_due(policy: Policy, task: DueTask) -> Promotion:
    """Rank a due task; the store has filled in when it arrived."""
    return Promotion(
        task.member, task.queue, task.tenant, rank_record(policy, task.record), task.record
    )
