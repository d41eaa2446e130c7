"""How recorded time becomes replayed time, worked out from one streaming pass over the jobs.

Submit times are divided by ``speedup``. Run times are divided by ``run_speedup``, which is the
same number unless a *load* is asked for: a grid of thousands of machines divided by one number
offers sixteen slots many times their capacity at any speed, so the load is reached by dividing
the run times further. All their proportions stay, except that none exceeds ``max_exec``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tq_celery.errors import SettingsError
from tq_celery.traces import Job
from tq_celery.workloads.work import Work

__all__ = ["CostRule", "Scale", "Survey", "choose_scale", "scaled", "survey"]

#: What a task is declared to cost: its replayed run time, the trace's own cost, or 1 for all.
CostRule = Literal["run-time", "trace", "one"]

#: Buckets per factor of e in the histogram of run times: 0.1 % wide.
_RESOLUTION = 1000

#: Bounds of a cost that a scheduler accepts.
_LEAST_COST, _MOST_COST = 1e-6, 1e9


@dataclass(frozen=True, slots=True)
class Scale:
    """How time is compressed; ``max_exec`` bounds one task's run time, in replayed seconds."""

    speedup: float
    run_speedup: float
    max_exec: float | None = None
    cost: CostRule = "run-time"

    def exec(self, duration: float) -> float:
        """Return the replayed run time of a recorded one."""
        seconds = duration / self.run_speedup
        return seconds if self.max_exec is None else min(seconds, self.max_exec)


@dataclass(frozen=True, slots=True)
class Survey:
    """What one pass over the jobs found, in recorded seconds; its size does not grow with them."""

    jobs: int
    tenants: int
    span: float
    #: bucket of ln(run time) -> (how many, their sum)
    buckets: dict[int, tuple[int, float]]

    def work(self, scale: Scale) -> float:
        """Return the replayed worker seconds of all jobs; exact but for the bucket at the cap."""
        total = 0.0
        for count, seconds in self.buckets.values():
            total += count * scale.exec(seconds / count)
        return total

    def load(self, scale: Scale, slots: int) -> float:
        """Return the work offered per slot second while jobs are submitted; 1 is capacity."""
        if self.span <= 0:
            return math.inf
        return self.work(scale) / (slots * self.span / scale.speedup)


def survey(jobs: Iterable[Job]) -> Survey:
    """Read all ``jobs`` once; raises what the reader raises, so a broken trace is known early."""
    buckets: defaultdict[int, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    tenants: set[str] = set()
    count, span = 0, 0.0
    for job in jobs:
        count, span = count + 1, job.submit
        tenants.add(job.tenant)
        if job.duration > 0:
            bucket = math.floor(math.log(job.duration) * _RESOLUTION)
            held, seconds = buckets[bucket]
            buckets[bucket] = (held + 1, seconds + job.duration)
    return Survey(count, len(tenants), span, dict(buckets))


def choose_scale(
    found: Survey,
    slots: int,
    *,
    speedup: float | None = None,
    span: float = 60.0,
    load: float | None = None,
    max_exec: float | None = None,
    cost: CostRule = "run-time",
) -> Scale:
    """Return the scale asked for: submissions last ``span`` seconds unless ``speedup`` is given.

    With ``load``, run times are scaled so that the work offered is ``load`` times what ``slots``
    can do. Raises SettingsError when that cannot be reached.
    """
    if speedup is None:
        speedup = found.span / span if found.span > 0 else 1.0
    scale = Scale(speedup, speedup, max_exec, cost)
    if load is None:
        return scale
    target = load * slots * found.span / speedup
    if target <= 0 or not found.buckets:
        raise SettingsError("load", load, "a trace with run times and more than one submit time")
    most = math.inf if max_exec is None else max_exec * sum(n for n, _ in found.buckets.values())
    if target >= most:
        raise SettingsError(
            "load",
            load,
            f"less than {load * most / target:.3g} with run times of at most {max_exec:g} s",
        )
    # Work falls as run times are divided by more: halve the interval of ln(run_speedup).
    low, high = -700.0, 700.0
    for _ in range(100):
        middle = (low + high) / 2
        if found.work(Scale(speedup, math.exp(middle), max_exec)) > target:
            low = middle
        else:
            high = middle
    return Scale(speedup, math.exp(high), max_exec, cost)


def scaled(jobs: Iterable[Job], scale: Scale) -> Iterator[Work]:
    """Yield the tasks to submit, one per job, in order."""
    for index, job in enumerate(jobs):
        seconds = scale.exec(job.duration)
        cost = {"run-time": seconds, "trace": job.cost, "one": 1.0}[scale.cost]
        yield Work(
            index,
            job.submit / scale.speedup,
            seconds,
            job.tenant,
            min(max(cost, _LEAST_COST), _MOST_COST),
        )
