"""Throughput against the duration of a task: below which duration a scheduler costs some."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.harness.cell import duration
from bench.harness.measure import Spread
from bench.harness.plots import style
from bench.harness.plots.view import View
from bench.harness.summary import CellSummary

__all__ = ["OURS", "draw"]

#: The arms that rivals are compared with, the first one that ran: fifo has the same order as most
#: of theirs, so only the path differs.
OURS = ("tq-fifo", "tq-wfq", "tq-priority", "tq-edf", "tq-none")


def _throughput(cell: CellSummary) -> float | None:
    return cell.real.throughput


def draw(view: View) -> Figure | None:
    """Return the plot, or None when no durations were measured."""
    lengths = {place: length for place in view.places
               if (length := duration(place.workload)) is not None}  # fmt: skip
    places = sorted(lengths, key=lambda place: lengths[place])
    if not places:
        return None
    arms = [arm for arm in view.arms if any(view.at(place, arm) for place in places)]
    ours = next((arm for arm in OURS if arm in arms), arms[0])
    figure = style.sheet(
        "Throughput and the duration of a task",
        f"A preloaded backlog of equal tasks. Right: {ours} against each rival, paired.",
        view, 13.0, 6.0,
    )  # fmt: skip
    left, right = figure.subplots(1, 2)
    ticks = [f"{lengths[place]:g}" for place in places]
    limits: tuple[list[float], list[float]] = [], [1.0]
    for number, arm in enumerate(arms):
        # A little apart, so that whiskers do not hide each other.
        shift = (number - (len(arms) - 1) / 2) * 0.035
        marker = style.MARKERS[number % len(style.MARKERS)]
        rates = [view.spread(place, arm, _throughput) for place in places]
        limits[0].extend(_line(left, rates, arm, marker, shift))
        if not arm.startswith("tq-"):
            ratios = [view.ratio(place, _throughput, ours, arm) for place in places]
            limits[1].extend(_line(right, ratios, arm, marker, shift))
    right.axhline(1.0, color=style.BLACK, linewidth=1, linestyle="--")
    right.annotate(
        f"above: {ours} is faster", (0.01, 1.0), xycoords=("axes fraction", "data"),
        xytext=(0, -11), textcoords="offset points", fontsize=8.5, color=style.BLACK,
    )  # fmt: skip
    units = "tasks per second", f"throughput, {ours} / rival"
    for axes, unit, seen in zip((left, right), units, limits, strict=True):
        axes.set_xticks(range(len(places)), ticks)
        axes.set_xlabel("duration of a task, milliseconds")
        axes.grid(visible=True, axis="y", color=style.FAINT, linewidth=0.8)
        style.scale_axis(axes.yaxis, seen or [1.0], unit)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=9)
    return figure


def _line(
    axes: Axes, values: Sequence[Spread | None], arm: str, marker: str, shift: float
) -> list[float]:
    """Draw an arm's line and return the values at the ends of its whiskers."""
    found = [(at + shift, value) for at, value in enumerate(values) if value is not None]
    if found:
        axes.errorbar(
            [at for at, _ in found], [value.median for _, value in found],
            yerr=list(zip(*(style.error(value) for _, value in found), strict=True)),
            color=style.colour(arm), marker=marker, markersize=5, linewidth=1.6, capsize=3,
            linestyle="-" if arm.startswith("tq-") else (0, (5, 1.5)),
            label=style.arm_label(arm), elinewidth=1,
        )  # fmt: skip
    return [limit for _, value in found for limit in (value.min, value.max)]
