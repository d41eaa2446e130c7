"""The server without overhead: the policies of the scheduler, in virtual time. Pure.

Every real cell is compared with what ``slots`` perfect slots would have made of the same arrivals:
a task starts the instant a slot is free and no waiting task goes before it. What is left between
the two is the cost of sending, deciding and running.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Protocol

from bench.harness.errors import BenchError
from bench.harness.record import Row
from tq_celery.policies.contract import MAX_RANK, Policy, Task
from tq_celery.policies.registry import make_policy
from tq_celery.policies.wfq import finish_tag
from tq_celery.setting_checks import did_you_mean
from tq_celery.workloads.work import Work

__all__ = ["IDEAL_POLICY", "ideal", "ideal_policy"]

#: The policy that the ideal server of each arm follows: for ours the one they run, for stock arms
#: the order they are set up to reach.
IDEAL_POLICY = {
    "tq-fifo": "fifo",
    "tq-priority": "priority",
    "tq-edf": "edf",
    "tq-wfq": "wfq",
    "tq-none": "none",
    "redis": "fifo",
    "redis-priority": "priority",
    "rabbitmq": "fifo",
    "rabbitmq-priority": "priority",
    "redis-plus": "priority",
    "tenant-queues": "wfq",
    "dynamic-priority": "wfq",
}


def ideal_policy(arm: str) -> str:
    """Return the policy of the ideal server beside ``arm``; BenchError for an unknown arm."""
    if arm not in IDEAL_POLICY:
        hint = did_you_mean(arm.lower(), IDEAL_POLICY)
        raise BenchError(f"arm: {arm!r} is not one of {', '.join(IDEAL_POLICY)}{hint}")
    return IDEAL_POLICY[arm]


def ideal(
    works: Sequence[Work],
    policy: str,
    slots: int,
    *,
    weights: Mapping[str, float] | None = None,
    order_within: str = "arrival",
) -> tuple[Row, ...]:
    """Return what an ideal server makes of ``works``, by job: every task completes.

    ``works`` are in order of arrival. A tenant without an entry in ``weights`` weighs 1; weights
    and ``order_within`` matter to ``wfq`` only. Tasks of equal rank start in order of their jobs.
    An arrival counts as waiting at the very instant a slot becomes free. Raises SettingsError for
    an unknown policy.
    """
    chosen = make_policy(policy, order_within)
    waiting: _Waiting = (
        _Fair(chosen, weights or {}) if chosen.between == "fair" else _Ranked(chosen)
    )
    # All starts and ends are whole microseconds: what happens at one instant compares equal.
    free = [0.0] * slots
    rows: list[Row] = []
    now, arrived = 0.0, 0
    while len(rows) < len(works):
        now = max(now, heapq.heappop(free))
        if not waiting and works[arrived].at > now:
            now = works[arrived].at
        while arrived < len(works) and works[arrived].at <= now:
            waiting.add(works[arrived])
            arrived += 1
        work = waiting.take()
        end = round(now + work.seconds, 6)
        heapq.heappush(free, end)
        rows.append(_row(work, now, end))
    return tuple(sorted(rows))


def _row(work: Work, started: float, finished: float) -> Row:
    return Row(
        job=work.job,
        tenant=work.tenant,
        priority=work.priority,
        cost=work.cost,
        seconds=work.seconds,
        deadline=work.deadline,
        scheduled=work.at,
        submitted=work.at,
        lag=0.0,
        started=started,
        finished=finished,
        executions=1,
        outcome="completed",
    )


def _task(work: Work) -> Task:
    """Return what a policy may look at, in whole milliseconds as the store keeps it."""
    due = MAX_RANK
    if work.deadline is not None:
        due = round((work.at + work.deadline) * 1e6) // 1000
    return Task(round(work.at * 1e6) // 1000, work.cost, work.priority, due)


class _Waiting(Protocol):
    def add(self, work: Work) -> None:
        """Let a task wait."""

    def take(self) -> Work:
        """Remove and return the task that goes next."""

    def __len__(self) -> int: ...


class _Ranked:
    """One order over all tenants: the lowest rank first, equal ranks by job."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._heap: list[tuple[float, int, Work]] = []

    def add(self, work: Work) -> None:
        heapq.heappush(self._heap, (self._policy.rank(_task(work)), work.job, work))

    def take(self) -> Work:
        return heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        return len(self._heap)


class _Fair:
    """Self-clocked fair queuing between tenants, as :mod:`tq_celery.policies.wfq` has it."""

    def __init__(self, policy: Policy, weights: Mapping[str, float]) -> None:
        self._policy, self._weights = policy, weights
        self._virtual = 0.0
        self._starts: dict[str, float] = {}
        self._queues: dict[str, list[tuple[float, int, Work]]] = {}
        self._scores: dict[str, tuple[float, int]] = {}
        #: Every score a head was ever given; what is not its tenant's score any more is void.
        self._heads: list[tuple[float, int, str]] = []

    def add(self, work: Work) -> None:
        queue = self._queues.setdefault(work.tenant, [])
        heapq.heappush(queue, (self._policy.rank(_task(work)), work.job, work))
        self._starts.setdefault(work.tenant, self._virtual)
        if queue[0][2] is work:
            self._score(work.tenant)

    def _score(self, tenant: str) -> None:
        _, job, work = self._queues[tenant][0]
        weight = self._weights.get(tenant, 1.0)
        finish = finish_tag(self._starts[tenant], work.cost, weight, paid=False)
        self._scores[tenant] = finish, job
        heapq.heappush(self._heads, (finish, job, tenant))

    def take(self) -> Work:
        finish, job, tenant = heapq.heappop(self._heads)
        while self._scores.get(tenant) != (finish, job):
            finish, job, tenant = heapq.heappop(self._heads)
        queue = self._queues[tenant]
        _, _, work = heapq.heappop(queue)
        self._virtual = max(self._virtual, finish)
        if queue:
            self._starts[tenant] = finish
            self._score(tenant)
        else:
            del self._starts[tenant], self._queues[tenant], self._scores[tenant]
        return work

    def __len__(self) -> int:
        return len(self._queues)
