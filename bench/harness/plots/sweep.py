"""How everything changes with the offered load: where the policy matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from bench.harness.measure import Spread, spread
from bench.harness.plots import style
from bench.harness.plots.view import Place, View
from bench.harness.summary import CellSummary

__all__ = ["draw", "policy_spread"]


class _Panel(NamedTuple):
    title: str
    unit: str
    figure: Callable[[CellSummary], float | None]
    scale: float = 1.0
    #: Whether a logarithmic axis makes sense.
    by_ratio: bool = False


#: Panels side by side; a workload has two rows of them.
COLUMNS = 3
PANELS = (
    _Panel("p99 latency", "seconds", lambda cell: cell.real.latency_p99, by_ratio=True),
    _Panel("missed deadlines", "per cent", lambda cell: cell.real.miss_rate, scale=100.0),
    _Panel("longest wait", "seconds", lambda cell: cell.real.wait_max, by_ratio=True),
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
    figure = style.sheet(
        "Offered load",
        "1 x is what the slots can do. Last panel: by how much the worst policy's p99 is above "
        "the best one's.",
        view, 12.0, 1.3 + 5.4 * len(places),
    )  # fmt: skip
    panels = iter(figure.subplots(2 * len(places), COLUMNS, squeeze=False).flat)
    for place in places:
        first = None
        for panel in PANELS:
            axes = next(panels)
            first = first or axes
            _lines(axes, panel, view, place)
            axes.set_title(f"{view.title(place)}: {panel.title}")
        _difference(next(panels), view, place)
        # The sixth place of a workload has the names of the lines.
        legend = next(panels)
        legend.set_axis_off()
        if first is not None:
            handles, labels = first.get_legend_handles_labels()
            legend.legend(handles, labels, loc="center left", title=view.title(place))
    return figure


def _loads(axes: Axes, loads: list[float]) -> None:
    axes.axvline(1.0, color=style.GREY, linestyle=":", linewidth=1)
    # By ratio, as loads are chosen: 0.5 and 0.75 keep as much room as 2 and 3.
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(loads, [f"{load:g}" for load in loads])
    axes.set_xlabel("offered load, x capacity")
    axes.grid(visible=True, axis="y", color=style.FAINT, linewidth=0.8)


def _lines(axes: Axes, panel: _Panel, view: View, first: Place) -> None:
    loads = view.loads(first)
    places = [first._replace(load=load) for load in loads]
    arms = [arm for arm in view.arms if any(view.at(place, arm) for place in places)]
    seen: list[float] = []
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
            seen += [limit for _, value in found for limit in (value.min, value.max)]
    axes.set_ylabel(panel.unit)
    axes.set_ylim(bottom=0)
    if panel.by_ratio and seen and min(seen) > 0:
        style.scale_axis(axes.yaxis, seen, panel.unit)
    _loads(axes, loads)


def _difference(axes: Axes, view: View, first: Place) -> None:
    loads = view.loads(first)
    found = [
        (load, value)
        for load in loads
        if (value := policy_spread(view, first._replace(load=load))) is not None
    ]
    axes.set_title(f"{view.title(first)}: p99, worst policy")
    if found:
        axes.errorbar(
            [load for load, _ in found], [value.median for _, value in found],
            yerr=list(zip(*(style.error(value) for _, value in found), strict=True)),
            color=style.BLACK, marker="o", markersize=5, linewidth=1.6, capsize=3,
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set_ylabel("per cent above the best")
    _loads(axes, loads)
