"""What a run comes to: numbers from its records alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from tq_celery.measures import jain, percentile
from tq_celery.replay.engine import Run
from tq_celery.replay.stats import Waits, jain_backlogged, service, utilisation

__all__ = ["Summary", "TenantSummary", "summarise"]

#: The run is cut into this many windows per length of the submissions to compare tenants.
WINDOWS = 20


@dataclass(frozen=True, slots=True)
class TenantSummary:
    """One tenant: its tasks, the worker seconds they took, and how long they waited."""

    tenant: str
    jobs: int
    service: float
    waits: Waits


@dataclass(frozen=True, slots=True)
class Summary:
    """One arm.

    ``elapsed`` runs from the first submission to the last finish, in seconds; ``throughput`` is
    tasks per second of it. ``jain`` compares service / weight among tenants while they compete,
    ``jain_total`` over all tenants up to the last submission. ``typical_p95`` is the median over
    tenants of their p95 waits: what a tenant sees, where overall figures say what a task sees.
    """

    policy: str
    jobs: int
    tenants: tuple[TenantSummary, ...]
    waits: Waits
    typical_p95: float
    elapsed: float
    throughput: float
    utilisation: float
    jain: float | None
    jain_total: float | None
    window: float
    lag: Waits
    repeats: int


def summarise(run: Run, slots: int, weights: Mapping[str, float] | None = None) -> Summary:
    """Summarise a finished run; tenants come by number of tasks, the largest first."""
    weights = weights or {}
    served = [record.served for record in run.records]
    by_tenant: defaultdict[str, list[float]] = defaultdict(list)
    for task in served:
        by_tenant[task.tenant].append(task.wait)
    work = service(served)
    tenants = sorted(
        (TenantSummary(t, len(w), work[t], Waits.of(w)) for t, w in by_tenant.items()),
        key=lambda t: (-t.jobs, t.tenant),
    )
    first = min((task.submitted for task in served), default=0.0)
    last = max((task.submitted for task in served), default=0.0)
    elapsed = max((task.finished for task in served), default=0.0) - first
    window = max((last - first) / WINDOWS, 0.1)
    shares = service(served, until=last)
    return Summary(
        policy=run.policy,
        jobs=len(served),
        tenants=tuple(tenants),
        waits=Waits.of(task.wait for task in served),
        typical_p95=percentile([t.waits.p95 for t in tenants], 50) if tenants else 0.0,
        elapsed=elapsed,
        throughput=len(served) / elapsed if elapsed > 0 else 0.0,
        utilisation=utilisation(served, slots),
        jain=jain_backlogged(served, window, weights),
        jain_total=jain(shares.get(t.tenant, 0.0) / weights.get(t.tenant, 1.0) for t in tenants)
        if tenants
        else None,
        window=window,
        lag=Waits.of(record.lag for record in run.records),
        repeats=run.repeats,
    )
