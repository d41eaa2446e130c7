"""The statistics of a run: pure functions of what was submitted, started and finished.

All times are seconds on one clock. A *wait* is the time from a task's submission to the start of
its body.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Served", "Waits", "jain", "jain_backlogged", "quantile", "service", "utilisation"]


class Served(NamedTuple):
    """One task that ran: when it was submitted, when its body started and finished."""

    tenant: str
    submitted: float
    started: float
    finished: float

    @property
    def wait(self) -> float:
        """Seconds from submission to start; a clock step can not make it negative."""
        return max(0.0, self.started - self.submitted)


def quantile(ordered: Sequence[float], q: float) -> float:
    """Return the ``q`` quantile (0 to 1) of an ascending sequence, by linear interpolation.

    The value at position ``q * (n - 1)``, as numpy and R type 7 have it. Raises ValueError on an
    empty sequence or a ``q`` outside 0 to 1.
    """
    if not ordered or not 0.0 <= q <= 1.0:
        raise ValueError("a quantile needs values and 0 <= q <= 1")
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


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
        p50, p95, p99 = (quantile(ordered, q) for q in (0.50, 0.95, 0.99))
        return cls(len(ordered), sum(ordered) / len(ordered), p50, p95, p99, ordered[-1])


def jain(shares: Iterable[float]) -> float | None:
    """Return Jain's fairness index ``(sum x)^2 / (n * sum x^2)``: 1 is equal, 1/n is one for all.

    ``None`` when no share is above zero. R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of
    Fairness and Discrimination for Resource Allocation in Shared Computer Systems", 1984.
    """
    values = list(shares)
    squares = sum(x * x for x in values)
    if squares == 0.0:
        return None
    return sum(values) ** 2 / (len(values) * squares)


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
    ``window`` seconds; in each, the index is taken over the worker seconds of those tenants that
    had work waiting during all of it. The result is the mean over windows with at least two such
    tenants; ``None`` when there is none. A tenant's weight is 1 unless given.
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
            worked[index, task.tenant] += max(0.0, overlap)
    indices = [
        index_value
        for index, tenants in wanting.items()
        if len(tenants) >= 2
        and (index_value := jain(worked[index, t] / weights.get(t, 1.0) for t in tenants))
        is not None
    ]
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
