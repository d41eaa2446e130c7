"""The statistics of a run: pure functions of what was submitted, started and finished.

All times are seconds on one clock. A *wait* is the time from a task's submission to the start of
its body.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tq_celery.measures import jain, percentile

__all__ = ["Served", "Waits", "jain_backlogged", "service", "utilisation"]


class Served(NamedTuple):
    """One task that ran: when it was submitted, when its body started and finished.

    ``rate`` is the service that a second of it counts as: 1 unless service is not worker seconds.
    """

    tenant: str
    submitted: float
    started: float
    finished: float
    rate: float = 1.0

    @property
    def wait(self) -> float:
        """Seconds from submission to start; a clock step can not make it negative."""
        return max(0.0, self.started - self.submitted)


@dataclass(frozen=True, slots=True)
class Waits:
    """How long a set of tasks waited, in seconds."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, waits: Iterable[float]) -> Waits:
        """Summarise; all zero when there is nothing to summarise."""
        ordered = sorted(waits)
        if not ordered:
            return cls(0, 0.0, 0.0, 0.0, 0.0, 0.0)
        p50, p95, p99 = (percentile(ordered, q) for q in (50, 95, 99))
        return cls(len(ordered), sum(ordered) / len(ordered), p50, p95, p99, ordered[-1])


def service(served: Iterable[Served], until: float | None = None) -> dict[str, float]:
    """Return worker seconds per tenant, counting only what was worked before ``until``."""
    total: defaultdict[str, float] = defaultdict(float)
    for task in served:
        end = task.finished if until is None else min(task.finished, until)
        total[task.tenant] += max(0.0, end - task.started)
    return dict(total)


def utilisation(served: Sequence[Served], slots: int) -> float:
    """Return the share of slot time that was worked, from first submission to last finish."""
    if not served:
        return 0.0
    length = max(t.finished for t in served) - min(t.submitted for t in served)
    return sum(service(served).values()) / (slots * length) if length > 0 else 0.0


def jain_backlogged(
    served: Sequence[Served], window: float, weights: Mapping[str, float] | None = None
) -> float | None:
    """Return Jain's index over service / weight among tenants that all wanted more.

    Over a whole run every tenant gets what it asked for, whatever the order, so that index says
    how much each asked for. Fairness shows while tenants compete: the run is cut into windows of
    ``window`` seconds; in each, the index is taken over the service of those tenants that had work
    waiting during all of it. The result is the mean over windows with at least two such tenants of
    which one was served; ``None`` when there is none. A tenant's weight is 1 unless given.
    """
    if not served or window <= 0:
        return None
    weights = weights or {}
    origin = min(task.submitted for task in served)
    wanting = _backlogged_windows(served, origin, window)
    worked: defaultdict[tuple[int, str], float] = defaultdict(float)
    for task in served:
        first, last = (int((t - origin) // window) for t in (task.started, task.finished))
        for index in range(first, last + 1):
            begin = origin + index * window
            overlap = min(task.finished, begin + window) - max(task.started, begin)
            worked[index, task.tenant] += max(0.0, overlap) * task.rate
    indices = []
    for index, tenants in wanting.items():
        shares = [worked[index, tenant] / weights.get(tenant, 1.0) for tenant in tenants]
        if len(shares) >= 2 and any(shares):
            indices.append(jain(shares))
    return sum(indices) / len(indices) if indices else None


def _backlogged_windows(
    served: Iterable[Served], origin: float, window: float
) -> dict[int, list[str]]:
    """Return window number -> tenants with at least one task waiting during all of it."""
    changes: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for task in served:
        changes[task.tenant] += [(task.submitted, 1), (task.started, -1)]
    result: defaultdict[int, list[str]] = defaultdict(list)
    for tenant, events in changes.items():
        waiting, since = 0, 0.0
        # At one instant arrivals count first: a backlog handed over without a gap is one backlog.
        for at, step in sorted(events, key=lambda event: (event[0], -event[1])):
            if waiting == 0:
                since = at
            waiting += step
            if waiting == 0:
                first = -int(-(since - origin) // window)
                for index in range(first, int((at - origin) // window)):
                    result[index].append(tenant)
    return dict(result)
