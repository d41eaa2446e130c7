"""Workloads by name: ``make_workload("bursty", seed=7, window=60.0)``.

================  ==============================================================================
``uniform``       five equal tenants, 40 to 60 ms a task, a Poisson stream
``bursty``        the same tasks, but 90 % of them come in 30 % of the time (a cycle is 10 s)
``heavy_tailed``  five equal tenants, Pareto run times: alpha 1.3, 15 ms to ``longest``
``multi_tenant``  ``uniform`` from five tenants that send 90, 3, 3, 2 and 2 % of the tasks
``llm``           three tenants, a task every 25, 40 and 8 ms on average that takes 90, 180 and
                  100 ms, costs 400, 800 and 200 tokens and has priority 2, 0 and 4; meant
                  weights 2, 1 and 1
``trace``         recorded jobs from a file; see :mod:`tq_celery.workloads.trace`
``fixed``         five equal tenants, every task takes ``seconds``, which may be 0
================  ==============================================================================

Every task has a priority (levels 0 to 4 with 50, 25, 15, 7 and 3 % of the tasks, 4 the most urgent,
unless its tenant has one) and a deadline by a :class:`DeadlineRule`. Its cost is its run time in
seconds, except for tokens.
The same arguments give the same tasks on every machine (:mod:`tq_celery.workloads.draws`); all
times are whole microseconds and the first task is submitted at 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

from tq_celery.errors import SettingsError
from tq_celery.setting_checks import did_you_mean, number, whole
from tq_celery.workloads.arrivals import MICROSECONDS, Arrivals
from tq_celery.workloads.deadlines import DeadlineRule
from tq_celery.workloads.draws import Draw, draws, pick
from tq_celery.workloads.durations import Constant, Pareto
from tq_celery.workloads.mixes import EQUAL_TENANTS, MIXES, PRIORITIES, Mix, Tenant
from tq_celery.workloads.trace import Trace, rescaled
from tq_celery.workloads.work import Work

__all__ = ["WORKLOADS", "DeadlineRule", "make_workload", "weights"]

WORKLOADS = ("uniform", "bursty", "heavy_tailed", "multi_tenant", "trace", "llm", "fixed")

#: Work offered per slot second, where a workload has no rate of its own.
DEFAULT_LOAD = 1.25

#: Most tasks of one workload; about 300 MB of them.
MOST_TASKS = 1_000_000

#: Longest run time of any task, in seconds.
LONGEST = 86_400.0

#: Shape and shortest run time of ``heavy_tailed``.
_ALPHA, _SHORTEST = 1.3, 0.015

#: Mean run time by which the number of tasks of a trace is chosen, in seconds: that of ``uniform``.
_TRACE_MEAN = 0.050

#: Least cost that a scheduler accepts, for tasks that take no time.
_LEAST_COST = 1e-6


def make_workload(
    name: str,
    *,
    seed: int,
    window: float | None = None,
    count: int | None = None,
    slots: int = 16,
    load: float | None = None,
    rate: float | None = None,
    longest: float = 4.0,
    deadline: DeadlineRule | None = DeadlineRule(),  # noqa: B008 - frozen
    seconds: float | None = None,
    trace: Trace | str | Path | None = None,
) -> list[Work]:
    """Return the tasks of ``window`` seconds, or ``count`` of them: exactly one of both.

    The mean rate is ``rate`` tasks per second (``math.inf``: all at 0, with a ``count``), else
    ``load`` times what ``slots`` can do by the mean run time. Without either the load is 1.25, and
    ``llm`` has the rate of its own tenants. ``longest`` bounds run times of ``heavy_tailed`` and
    ``trace``, in seconds; ``seconds`` is for ``fixed`` and ``trace`` (a path or a
    :class:`~tq_celery.workloads.trace.Trace`) for ``trace``. ``deadline`` None is no deadline.

    Of a trace, the first ``count`` jobs are taken, or as many as ``uniform`` would have in the
    window, or all if there are fewer; it always offers the load. Raises SettingsError that names
    the argument, and TraceError when the file cannot be read.
    """
    _check(name, seed, window, count, slots, load, rate, longest, seconds, trace)
    offered = DEFAULT_LOAD if load is None else load
    if trace is not None:
        source = trace if isinstance(trace, Trace) else Trace.of(trace)
        rate = offered * slots / _TRACE_MEAN if rate is None else rate
        jobs = _bounded(count, window, rate)
        recorded = rescaled(source, jobs, window, rate, slots, offered, longest)
        return [
            _work(
                w.job,
                round(w.at * MICROSECONDS),
                w.seconds,
                Tenant(w.tenant, 1.0, cost=w.cost),
                draw,
                deadline,
            )
            for w, draw in zip(recorded, draws(seed), strict=False)
        ]
    mix = _mix(name, longest, seconds)
    if rate is None:
        rate = mix.rate if load is None and mix.rate is not None else _rate(mix, offered, slots)
    _bounded(count, window, rate)
    works = _synthetic(mix, seed, rate, window, deadline)
    if count is not None:
        return list(itertools.islice(works, count))
    assert window is not None
    return list(itertools.takewhile(lambda work: work.at < window, works))


def weights(name: str) -> dict[str, float]:
    """Return the weights that tenants of a workload are meant to have, where not all are 1."""
    mix = MIXES.get(name)
    tenants = mix.tenants if mix is not None else ()
    return {tenant.name: tenant.weight for tenant in tenants if tenant.weight != 1.0}


def _synthetic(
    mix: Mix, seed: int, rate: float, window: float | None, deadline: DeadlineRule | None
) -> Iterator[Work]:
    """Yield the tasks of a mix, without end."""
    bursts = mix.bursts if mix.bursts is None or window is None else mix.bursts.fitted(window)
    arrivals = Arrivals(rate, bursts)
    tenants = [(tenant, tenant.share) for tenant in mix.tenants]
    for job, draw in enumerate(draws(seed)):
        at = arrivals.next(draw.arrival)
        tenant = pick(tenants, draw.tenant)
        if mix.durations is not None:
            seconds = mix.durations.seconds(draw.seconds)
        else:
            seconds = tenant.seconds or 0.0
        yield _work(job, at, seconds, tenant, draw, deadline)


def _work(
    job: int, at: int, seconds: float, tenant: Tenant, draw: Draw, deadline: DeadlineRule | None
) -> Work:
    """Return a task with all numbers on whole millionths; without a cost it is the run time."""
    seconds = _grain(seconds)
    cost = max(_LEAST_COST, seconds if tenant.cost is None else _grain(tenant.cost))
    priority = pick(PRIORITIES, draw.priority) if tenant.priority is None else tenant.priority
    allowed = None
    if deadline is not None:
        allowed = max(1 / MICROSECONDS, _grain(deadline.seconds(seconds, draw.deadline)))
    return Work(job, at / MICROSECONDS, seconds, tenant.name, cost, priority, allowed)


def _grain(value: float) -> float:
    return round(value * MICROSECONDS) / MICROSECONDS


def _mix(name: str, longest: float, seconds: float | None) -> Mix:
    if name == "heavy_tailed":
        return Mix(EQUAL_TENANTS, Pareto(_ALPHA, _SHORTEST, longest))
    if name == "fixed":
        assert seconds is not None
        return Mix(EQUAL_TENANTS, Constant(seconds))
    return MIXES[name]


def _rate(mix: Mix, load: float, slots: int) -> float:
    if mix.mean == 0:
        raise SettingsError("rate", None, "tasks per second, where a task takes 0 seconds")
    return load * slots / mix.mean


def _bounded(count: int | None, window: float | None, rate: float) -> int:
    """Return how many tasks are expected; SettingsError when that is none or too many."""
    if count is not None:
        return count
    assert window is not None
    expected = rate * window
    if not expected <= MOST_TASKS:
        raise SettingsError(
            "window", window, f"at most {MOST_TASKS / rate:g} seconds at {rate:g} tasks/s"
        )
    return max(1, round(expected))


def _check(
    name: str,
    seed: int,
    window: float | None,
    count: int | None,
    slots: int,
    load: float | None,
    rate: float | None,
    longest: float,
    seconds: float | None,
    trace: Trace | str | Path | None,
) -> None:
    if name not in WORKLOADS:
        hint = did_you_mean(name, WORKLOADS) if isinstance(name, str) else ""
        raise SettingsError("workload", name, "one of " + ", ".join(WORKLOADS) + hint)
    whole(0, 2**63)("seed", seed)
    if (window is None) == (count is None):
        raise SettingsError("count", count, "either a window or a count of tasks")
    if count is not None:
        whole(1, MOST_TASKS)("count", count)
    if window is not None:
        _number("window", window, 1e-3, 1e6)
    whole(1, 100_000)("slots", slots)
    if load is not None:
        _number("load", load, 1e-6, 1e6)
    if rate is not None and not (rate == math.inf and count is not None):
        _number("rate", rate, 1e-6, 1e9)
    _number("longest", longest, 0.016, LONGEST)
    if (seconds is None) == (name == "fixed"):
        raise SettingsError("seconds", seconds, "the run time of fixed, and of no other workload")
    if seconds is not None:
        _number("seconds", seconds, 0.0, LONGEST)
    if (trace is None) == (name == "trace"):
        raise SettingsError("trace", trace, "a file for the trace workload, and for no other")


def _number(name: str, value: object, low: float, high: float) -> None:
    if isinstance(value, str):
        raise SettingsError(name, value, f"a number from {low:g} to {high:g}")
    number(low, high)(name, value)
