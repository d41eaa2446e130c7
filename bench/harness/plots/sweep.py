"""How everything changes with the offered load: where the policy matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bench.harness.measure import Spread, spread
from bench.harness.plots import style
from bench.harness.plots.view import Place, View
from bench.harness.summary import CellSummary

__all__ = ["draw", "policy_spread"]


class _Panel(NamedTuple):
    title: str
    unit: str
    figure: Callable[[CellSummary], float | None]
    log: bool = False
    scale: float = 1.0


PANELS = (
    _Panel("p99 latency", "seconds (log)", lambda cell: cell.real.latency_p99, log=True),
    _Panel("missed deadlines", "per cent", lambda cell: cell.real.miss_rate, scale=100.0),
    _Panel("longest wait", "seconds (log)", lambda cell: cell.real.wait_max, log=True),
    _Panel("throughput", "tasks per second", lambda cell: cell.real.throughput),
)


def policy_spread(view: View, place: Place) -> Spread | None:
    """Return by how many per cent the p99 of the worst policy is above that of the best one.

    One value for each repetition in which all arms ran; None when there is none.
    """
    by_arm = [{cell.cell.repetition: cell.real.latency_p99 for cell in view.at(place, arm)}
              for arm in view.arms_at(place)]  # fmt: skip
    values = []
    for repetition in set[int].intersection(*(set(each) for each in by_arm)) if by_arm else ():
        p99 = [value for each in by_arm if (value := each[repetition])]
        if len(p99) > 1:
            values.append((max(p99) / min(p99) - 1) * 100)
    return spread(values) if values else None


def draw(view: View) -> Figure | None:
    """Return the plot, or None when no workload was offered at several loads."""
    places = view.swept()
    if not places:
        return None
    columns = len(PANELS) + 1
    figure = style.sheet(
        "Offered load",
        "1 x is what the slots can do; lines are medians.",
        view, 3.4 * columns, 1.3 + 3.0 * len(places),
    )  # fmt: skip
    panels = figure.subplots(len(places), columns, squeeze=False)
    for line, place in zip(panels, places, strict=True):
        for axes, panel in zip(line, PANELS, strict=False):
            _lines(axes, panel, view, place)
            axes.set_title(f"{view.title(place)}: {panel.title}")
        _difference(line[-1], view, place)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper right", ncols=len(labels), fontsize=9)
    return figure


def _loads(axes: Axes, loads: list[float]) -> None:
    axes.axvline(1.0, color=style.GREY, linestyle=":", linewidth=1)
    axes.set_xticks(loads, [f"{load:g}" for load in loads])
    axes.set_xlabel("offered load, x capacity")
    axes.grid(visible=True, axis="y", color=style.FAINT, linewidth=0.8)


def _lines(axes: Axes, panel: _Panel, view: View, first: Place) -> None:
    loads = view.loads(first)
    places = [first._replace(load=load) for load in loads]
    arms = [arm for arm in view.arms if any(view.at(place, arm) for place in places)]
    for arm, marker in zip(arms, style.MARKERS * 2, strict=False):
        found = [
            (place.load, Spread(*(each * panel.scale for each in value)))
            for place in places
            if (value := view.spread(place, arm, panel.figure)) is not None
        ]
        if found:
            axes.errorbar(
                [load for load, _ in found], [value.median for _, value in found],
                yerr=list(zip(*(style.error(value) for _, value in found), strict=True)),
                color=style.colour(arm), marker=marker, markersize=5, linewidth=1.6, capsize=3,
                label=style.arm_label(arm),
            )  # fmt: skip
    if panel.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: style.short(value)))
    else:
        axes.set_ylim(bottom=0)
    axes.set_ylabel(panel.unit)
    _loads(axes, loads)


def _difference(axes: Axes, view: View, first: Place) -> None:
    loads = view.loads(first)
    found = [
        (load, value)
        for load in loads
        if (value := policy_spread(view, first._replace(load=load))) is not None
    ]
    axes.set_title(f"{view.title(first)}: worst p99 above the best")
    if found:
        axes.errorbar(
            [load for load, _ in found], [value.median for _, value in found],
            yerr=list(zip(*(style.error(value) for _, value in found), strict=True)),
            color=style.BLACK, marker="o", markersize=5, linewidth=1.6, capsize=3,
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_ylabel("per cent")
    _loads(axes, loads)
