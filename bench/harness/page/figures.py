"""The tables of a page: for every place a row for each arm, over its repetitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from bench.harness.cell import duration
from bench.harness.measure import Spread
from bench.harness.page.html import Markup, table, text
from bench.harness.plots.groups import ideal_p95, real_p95
from bench.harness.plots.style import arm_label, short
from bench.harness.plots.view import Place, View
from bench.harness.summary import CellSummary, Group

__all__ = ["by_group", "costs", "figures"]


class _Column(NamedTuple):
    title: str
    real: Callable[[CellSummary], float | None]
    ideal: Callable[[CellSummary], float | None] | None = None
    scale: float = 1.0


def _both(title: str, name: str, scale: float = 1.0) -> _Column:
    return _Column(
        title,
        lambda cell: getattr(cell.real, name),
        lambda cell: getattr(cell.ideal, name),
        scale,
    )


TIMES = (
    _both("latency p50, s", "latency_p50"),
    _both("p95, s", "latency_p95"),
    _both("p99, s", "latency_p99"),
    _both("p99 / p50", "tail_ratio"),
    _both("longest wait, s", "wait_max"),
    _both("waits > 1 s", "over_1"),
    _both("> 5 s", "over_5"),
    _both("> 10 s", "over_10"),
    _both("> 30 s", "over_30"),
)
OUTCOMES = (
    _both("missed, %", "miss_rate", 100.0),
    _both("tasks / s", "throughput"),
    _both("utilisation, %", "utilisation", 100.0),
    _both("Jain", "jain_service"),
    _both("Jain, competing", "jain_weighted"),
    _Column("repeats", lambda cell: cell.real.repeats),
    _Column("dead", lambda cell: cell.real.dead),
)
COSTS = (
    _Column("worker CPU", lambda cell: cell.worker_us),
    _Column("scheduler CPU", lambda cell: cell.scheduler_us),
    _Column("server CPU", lambda cell: cell.server_cpu_us),
    _Column("server's own account", lambda cell: cell.server_us),
    _Column("producer CPU", lambda cell: cell.producer_us),
    _Column("producer late p99, ms", lambda cell: cell.lag_p99, scale=1000.0),
    _Column("cores used by others", lambda cell: cell.others),
)


def figures(view: View, place: Place) -> Iterator[Markup]:
    """Yield a place's tables: medians, least and greatest, and the ideal server's."""
    # Tasks of a backlog wait for each other: only how fast it was emptied says something.
    if duration(place.workload) is None:
        yield _table(view, place, TIMES)
    yield _table(view, place, OUTCOMES)


def by_group(view: View, place: Place, groups: Callable[[CellSummary], Sequence[Group]]) -> Markup:
    """Return the p95 latency of each tenant or priority level; "" where there is only one."""
    cells = [cell for arm in view.arms_at(place) for cell in view.at(place, arm)]
    names = list(dict.fromkeys(group.name for cell in cells for group in groups(cell)))
    if len(names) < 2:
        return Markup("")
    return _table(
        view,
        place,
        [
            _Column(
                name,
                partial(_p95, groups, real_p95, name),
                partial(_p95, groups, ideal_p95, name),
            )
            for name in names
        ],
    )


def _p95(
    groups: Callable[[CellSummary], Sequence[Group]],
    figure: Callable[[Sequence[Group], str], float | None],
    name: str,
    cell: CellSummary,
) -> float | None:
    return figure(groups(cell), name)


def costs(view: View, place: Place) -> Markup:
    """Return what a completed task cost the processes, in microseconds."""
    return _table(view, place, COSTS)


def _table(view: View, place: Place, columns: Sequence[_Column]) -> Markup:
    arms = view.arms_at(place)
    # A column in which nothing was measured would only make the table wider.
    used = [each for each in columns if any(view.spread(place, arm, each.real) for arm in arms)]
    return table(
        ["arm", "n", *(column.title for column in used)],
        (
            [arm_label(arm), len(view.at(place, arm)),
             *(_cell(view, place, arm, column) for column in used)]
            for arm in arms
        ),
        "figures",
    )  # fmt: skip


def _cell(view: View, place: Place, arm: str, column: _Column) -> Markup:
    real = view.spread(place, arm, column.real)
    if real is None:
        return Markup("–")
    lines = [f"<b>{text(short(real.median * column.scale))}</b>"]
    if real.max > real.min:
        lines.append(f"<i>{_range(real, column.scale)}</i>")
    if column.ideal is not None:
        ideal = view.spread(place, arm, column.ideal)
        # Nothing beside nothing says nothing.
        if ideal is not None and (ideal.median or real.max):
            lines.append(f"<i>ideal {text(short(ideal.median * column.scale))}</i>")
    return Markup("".join(lines))


def _range(value: Spread, scale: float) -> str:
    return f"{text(short(value.min * scale))}..{text(short(value.max * scale))}"
