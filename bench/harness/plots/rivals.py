"""Ours against every rival, as ratios paired by repetition: quiet tenants, and throughput."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.harness.measure import Spread, spread
from bench.harness.plots import style
from bench.harness.plots.tenants import skewed
from bench.harness.plots.view import Place, View
from bench.harness.summary import CellSummary

__all__ = ["OURS", "draw", "quiet_p95"]

#: The arm that rivals are compared with.
OURS = "tq-wfq"


def quiet_p95(cell: CellSummary) -> float | None:
    """Return the median of the p95 latencies of all tenants but the one that sends the most."""
    values = [
        group.real.latency_p95 for group in cell.tenants[1:] if group.real.latency_p95 is not None
    ]
    return median(values) if values else None


def draw(view: View) -> Figure | None:
    """Return the plot, or None without rivals beside ours."""
    rivals = [arm for arm in view.arms if not arm.startswith("tq-")]
    places = [
        place
        for place in view.single()
        if view.at(place, OURS) and any(view.at(place, rival) for rival in rivals)
    ]
    uneven = [place for place in places if skewed(place, view)]
    if not places:
        return None
    columns = len(uneven) + len(places)
    figure = style.sheet(
        f"{OURS} against stock Celery",
        "Ratios, each formed within a repetition; right of the line is better for us.",
        view, max(9.0, 1.6 + 3.1 * columns), 1.9 + 0.42 * len(rivals),
    )  # fmt: skip
    panels = figure.subplots(1, columns, squeeze=False, sharey=True)[0]
    for axes, place in zip(panels, uneven, strict=False):
        ratios = [_ratio(view, place, quiet_p95, rival, OURS) for rival in rivals]
        _panel(axes, rivals, ratios, f"{view.title(place)}:\nquiet tenants' p95")
        axes.set_xlabel("rival / ours (log)")
    for axes, place in zip(panels[len(uneven) :], places, strict=True):
        ratios = [_ratio(view, place, lambda cell: cell.real.throughput, OURS, rival)
                  for rival in rivals]  # fmt: skip
        _panel(axes, rivals, ratios, f"{view.title(place)}:\nthroughput")
        axes.set_xlabel("ours / rival (log)")
    return figure


def _ratio(
    view: View, place: Place, figure: Callable[[CellSummary], float | None], over: str, under: str
) -> Spread | None:
    below = {cell.cell.repetition: figure(cell) for cell in view.at(place, under)}
    values = [
        top / bottom
        for cell in view.at(place, over)
        if (top := figure(cell)) is not None and (bottom := below.get(cell.cell.repetition))
    ]
    return spread(values) if values else None


def _panel(axes: Axes, rivals: list[str], ratios: Sequence[Spread | None], title: str) -> None:
    seen = [1.0]
    for line, (rival, value) in enumerate(zip(rivals, ratios, strict=True)):
        if value is None:
            continue
        seen += [value.min, value.max]
        axes.errorbar(value.median, line, xerr=[[each] for each in style.error(value)], fmt="o",
                      markersize=7, capsize=4, color=style.colour(rival))  # fmt: skip
        axes.annotate(f"{style.short(value.median)} x", (value.median, line), xytext=(0, 8),
                      textcoords="offset points", ha="center", fontsize=8.5)  # fmt: skip
    axes.axvline(1.0, color=style.BLACK, linewidth=1, linestyle="--")
    axes.set_yticks(range(len(rivals)), [style.arm_label(rival) for rival in rivals])
    axes.set_ylim(len(rivals) - 0.4, -0.7)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True, axis="x", color=style.FAINT, linewidth=0.8)
    axes.set_title(title)
    style.log_axis(axes, seen)
