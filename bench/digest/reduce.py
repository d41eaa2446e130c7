"""A run's cells in a few hundred numbers: per arm and workload, over the repetitions. Pure.

Only complete cells count. A ratio is formed per repetition between cells of one seed, which ran
next to each other, and then spread like any other figure.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bench.harness.cell import duration
from bench.harness.measure import paired_ratio, spread
from bench.harness.summary import CellSummary, Flat

__all__ = ["Line", "Measured", "Place", "Ratio", "lines", "measured", "ratios"]

#: Figures kept of a whole cell.
OF_CELL = (
    "completed", "dead", "missing", "repeats", "latency_p50", "latency_p95", "latency_p99",
    "latency_max", "wait_p95", "wait_max", "tail_ratio", "miss_rate", "over_1", "over_5", "over_10",
    "over_30", "makespan", "throughput", "utilisation", "jain_service", "jain_counts",
    "jain_weighted", "lag_p99", "worker_us", "scheduler_us", "server_cpu_us", "server_us", "others",
)  # fmt: skip
#: Of a backlog of tasks of one duration: how fast it was emptied, and at what cost.
OF_BACKLOG = (
    "completed", "missing", "repeats", "makespan", "throughput", "worker_us", "scheduler_us",
    "server_cpu_us", "server_us",
)  # fmt: skip
#: Of the quiet tenants together, and of one tenant or priority level.
OF_QUIET = ("tasks", "latency_p50", "latency_p95", "latency_p99", "wait_max", "miss_rate")
OF_GROUP = ("latency_p95",)
#: Figures of which ratios are formed.
COMPARED = (
    "latency_p50", "latency_p95", "latency_p99", "wait_max", "throughput", "worker_us", "server_us",
)  # fmt: skip
IDEAL = "ideal_"


class Place(NamedTuple):
    """What a figure is of: ``scope`` is ``all``, ``quiet``, ``tenant:NAME`` or ``priority:N``.

    ``quiet`` are all tenants but the dominant one, where there is one.
    """

    workload: str
    load: float
    exec: str
    arm: str
    scope: str


class Line(NamedTuple):
    """A figure over the repetitions; ``ideal`` is the median of the ideal server's."""

    place: Place
    figure: str
    repetitions: int
    median: float
    min: float
    max: float
    ideal: float | None


class Ratio(NamedTuple):
    """A figure of the place's arm over that of the arm ``versus``."""

    place: Place
    versus: str
    figure: str
    repetitions: int
    median: float
    min: float
    max: float


#: place -> figure -> repetition -> value
Measured = Mapping[Place, Mapping[str, Mapping[int, float]]]


def measured(summaries: Iterable[CellSummary]) -> Measured:
    """Return every figure of every complete cell, the ideal server's with ``ideal_`` before it."""
    found: defaultdict[Place, defaultdict[str, dict[int, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for summary in summaries:
        if not summary.counts:
            continue
        cell = summary.cell
        for scope, wanted, flat in _scopes(summary):
            place = Place(cell.workload, cell.load, cell.exec, cell.arm, scope)
            for figure in (*wanted, *(IDEAL + name for name in wanted)):
                value = flat.get(figure)
                if isinstance(value, (int, float)):
                    found[place][figure][cell.repetition] = value
    return found


def lines(found: Measured) -> list[Line]:
    """Return the figures over their repetitions, in the order of the cells."""
    made = []
    for place, of in found.items():
        for figure, values in of.items():
            if not figure.startswith(IDEAL):
                ideal = of.get(IDEAL + figure)
                best = statistics.median(ideal.values()) if ideal else None
                made.append(Line(place, figure, len(values), *spread(list(values.values())), best))
    return made


def ratios(found: Measured) -> list[Ratio]:
    """Return the ratios to the control group; without one, to the simplest of our arms."""
    bases = _bases(list(dict.fromkeys(place.arm for place in found)))
    made = []
    for place, of in found.items():
        if place.scope not in ("all", "quiet") or place.arm in bases:
            continue
        for versus in bases:
            theirs = found.get(place._replace(arm=versus), {})
            for figure in COMPARED:
                ours, others = of.get(figure, {}), theirs.get(figure, {})
                shared = sorted(n for n in ours.keys() & others.keys() if others[n] > 0)
                if shared:
                    ratio = paired_ratio([ours[n] for n in shared], [others[n] for n in shared])
                    made.append(Ratio(place, versus, figure, len(shared), *ratio))
    return made


def _bases(arms: Sequence[str]) -> list[str]:
    stock = [arm for arm in arms if not arm.startswith("tq-")]
    simplest = [arm for arm in ("tq-none", "tq-fifo") if arm in arms]
    return stock or simplest[:1]


def _scopes(summary: CellSummary) -> Iterator[tuple[str, Sequence[str], Flat]]:
    """Yield scopes, the figures kept of them, and all their figures."""
    if duration(summary.cell.workload) is not None:
        yield "all", OF_BACKLOG, summary.flat()
        return
    yield "all", OF_CELL, summary.flat()
    if summary.quiet is not None:
        yield "quiet", OF_QUIET, summary.quiet.flat()
    for group in summary.tenants:
        yield f"tenant:{group.name}", OF_GROUP, group.flat()
    for group in summary.priorities:
        yield f"priority:{group.name}", OF_GROUP, group.flat()
