"""What a set of tasks comes to: pure functions of their rows.

Times count from the instant of submission. A *wait* lasts until the body starts, a *latency* until
it ends; both are known of completed tasks only. Where there is nothing to measure a figure is None.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from bench.harness.record import Row
from tq_celery.measures import jain, percentile
from tq_celery.replay.stats import Served, jain_backlogged

__all__ = ["THRESHOLDS", "Figures", "Whole", "figures", "missed", "whole"]

#: Seconds; how many tasks waited longer than each is counted.
THRESHOLDS = (1, 5, 10, 30)
#: Seconds by which a deadline may be passed because binary fractions are not exact.
EXACTNESS = 1e-9
#: Shortest window in seconds in which backlogged tenants are compared, and how many the arrivals
#: are cut into: a window has to hold many tasks of each tenant.
SHORTEST_WINDOW, WINDOWS = 1.0, 20


@dataclass(frozen=True, slots=True)
class Figures:
    """Tasks of a cell, a tenant or a priority level; durations in seconds.

    ``completed``, ``dead`` and ``missing`` add up to ``tasks``; ``repeats`` counts the executions
    beyond the first of each task. ``miss_rate`` is the share of the ``with_deadline`` completed
    tasks that had one and ended after it: ending on it is a hit, and dead letters are apart.
    ``tail_ratio`` is the p99 latency over the median one. ``service`` is the seconds that
    completed executions held a slot, ``cost`` the sum of their costs in the workload's unit;
    ``over_N`` is the number of waits longer than N seconds.
    """

    tasks: int
    completed: int
    dead: int
    missing: int
    repeats: int
    service: float
    cost: float
    with_deadline: int
    missed: int
    miss_rate: float | None
    latency_mean: float | None
    latency_p50: float | None
    latency_p95: float | None
    latency_p99: float | None
    latency_max: float | None
    wait_mean: float | None
    wait_p50: float | None
    wait_p95: float | None
    wait_p99: float | None
    wait_max: float | None
    tail_ratio: float | None
    over_1: int
    over_5: int
    over_10: int
    over_30: int


@dataclass(frozen=True, slots=True)
class Whole(Figures):
    """All tasks of a cell, and what only a whole cell has.

    ``makespan`` runs from the first submission to the last completion, ``throughput`` is completed
    tasks per second of it, ``utilisation`` the share of its slot-seconds that completed executions
    held. ``jain_service`` and ``jain_counts`` compare what tenants received in all: as every task
    is served in the end they say what was asked for, whatever the policy. ``jain_weighted``
    compares cost / weight while tenants compete: see
    :func:`~tq_celery.replay.stats.jain_backlogged`.
    """

    makespan: float | None
    throughput: float | None
    utilisation: float | None
    jain_service: float | None
    jain_counts: float | None
    jain_weighted: float | None


def missed(row: Row) -> bool:
    """Return whether a completed task ended after its deadline; False for all others."""
    if row.finished is None or row.deadline is None:
        return False
    return _latency(row) > row.deadline + EXACTNESS


def figures(rows: Sequence[Row]) -> Figures:
    """Return what these tasks come to."""
    ends = Counter(row.outcome for row in rows)
    done = [row for row in rows if row.started is not None and row.finished is not None]
    due = sum(row.deadline is not None for row in done)
    late = sum(missed(row) for row in done)
    # A task can not start before it was sent: below zero is the clocks' exactness.
    waits = sorted(max(0.0, (row.started or 0.0) - row.submitted) for row in done)
    wait, latency = _Spread.of(waits), _Spread.of([_latency(row) for row in done])
    over = {limit: sum(wait > limit for wait in waits) for limit in THRESHOLDS}
    return Figures(
        tasks=len(rows),
        completed=ends["completed"],
        dead=ends["dead"],
        missing=ends["missing"],
        repeats=sum(max(0, row.executions - 1) for row in rows),
        service=sum(_held(row) for row in done),
        cost=sum(row.cost for row in done),
        with_deadline=due,
        missed=late,
        miss_rate=late / due if due else None,
        latency_mean=latency.mean,
        latency_p50=latency.p50,
        latency_p95=latency.p95,
        latency_p99=latency.p99,
        latency_max=latency.max,
        wait_mean=wait.mean,
        wait_p50=wait.p50,
        wait_p95=wait.p95,
        wait_p99=wait.p99,
        wait_max=wait.max,
        tail_ratio=latency.p99 / latency.p50 if latency.p99 is not None and latency.p50 else None,
        over_1=over[1],
        over_5=over[5],
        over_10=over[10],
        over_30=over[30],
    )


class _Spread(NamedTuple):
    """How a duration spreads; all None when there is none."""

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, values: Sequence[float]) -> _Spread:
        if not values:
            return cls()
        ordered = sorted(values)
        p50, p95, p99 = (percentile(ordered, q) for q in (50, 95, 99))
        return cls(sum(ordered) / len(ordered), p50, p95, p99, ordered[-1])


def _latency(row: Row) -> float:
    """Return the seconds from submission to the end of a completed task."""
    return (row.finished or 0.0) - row.submitted


def _held(row: Row) -> float:
    """Return the seconds that the completed execution held a slot."""
    return (row.finished or 0.0) - (row.started or 0.0)


def _rate(row: Row) -> float:
    """Return the cost that a second of the completed execution stands for."""
    held = _held(row)
    return row.cost / held if held > 0 else 0.0


def whole(rows: Sequence[Row], slots: int, weights: Mapping[str, float] | None = None) -> Whole:
    """Return what a cell comes to; a tenant's weight is 1 unless given."""
    served = [
        Served(row.tenant, row.submitted, row.started, row.finished, _rate(row))
        for row in rows
        if row.started is not None and row.finished is not None
    ]
    service: defaultdict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    for row in rows:
        # Adding nothing keeps tenants that received nothing among those compared.
        completed = row.finished is not None
        service[row.tenant] += _held(row) if completed else 0.0
        counts[row.tenant] += completed
    makespan = None
    if served:
        makespan = max(t.finished for t in served) - min(row.submitted for row in rows)
    return Whole(
        **asdict(figures(rows)),
        makespan=makespan,
        throughput=len(served) / makespan if makespan else None,
        utilisation=sum(service.values()) / (slots * makespan) if makespan else None,
        jain_service=jain(service.values()) if rows else None,
        jain_counts=jain(counts.values()) if rows else None,
        jain_weighted=jain_backlogged(served, _window(rows), weights),
    )


def _window(rows: Sequence[Row]) -> float:
    """Return the seconds of one window in which backlogged tenants are compared."""
    sent = [row.submitted for row in rows]
    return max((max(sent) - min(sent)) / WINDOWS if sent else 0.0, SHORTEST_WINDOW)
