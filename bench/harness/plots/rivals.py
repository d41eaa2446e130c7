"""Ours against every rival, as ratios paired by repetition: quiet tenants, and throughput."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.harness.measure import Spread
from bench.harness.plots import style
from bench.harness.plots.tenants import skewed
from bench.harness.plots.view import View
from bench.harness.summary import CellSummary

__all__ = ["OURS", "draw"]

#: The arm that rivals are compared with.
OURS = "tq-wfq"
#: One ratio for each rival.
Ratios = Sequence[Spread | None]


def draw(view: View) -> Figure | None:
    """Return the plot, or None without rivals beside ours."""
    rivals = [arm for arm in view.arms if not arm.startswith("tq-")]
    places = [
        place
        for place in view.single()
        if view.at(place, OURS) and any(view.at(place, rival) for rival in rivals)
    ]
    if not places:
        return None
    quiet: Mapping[str, Ratios] = {
        view.title(place): [view.ratio(place, _quiet_p95, rival, OURS) for rival in rivals]
        for place in places
        if skewed(place, view)
    }
    rate: Mapping[str, Ratios] = {
        view.title(place): [view.ratio(place, _throughput, OURS, rival) for rival in rivals]
        for place in places
    }
    drawn = [each for each in (quiet, rate) if each]
    figure = style.sheet(
        f"{OURS} against stock Celery",
        f"Ratios, each formed within a repetition; right of the line {OURS} is better.",
        view, 12.0, 2.1 + 0.55 * len(rivals),
    )  # fmt: skip
    panels = figure.subplots(1, len(drawn), squeeze=False, sharey=True)[0]
    for axes, each in zip(panels, drawn, strict=True):
        is_quiet = each is quiet
        unit = f"rival / {OURS}" if is_quiet else f"{OURS} / rival"
        _panel(axes, rivals, each, unit, from_zero=is_quiet)
        axes.set_title("p95 latency of the quiet tenants" if is_quiet else "Throughput")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, fontsize=9)
    return figure


def _quiet_p95(cell: CellSummary) -> float | None:
    return cell.quiet.real.latency_p95 if cell.quiet is not None else None


def _throughput(cell: CellSummary) -> float | None:
    return cell.real.throughput


def _panel(
    axes: Axes, rivals: Sequence[str], series: Mapping[str, Ratios], unit: str, from_zero: bool
) -> None:
    seen = [1.0]
    for number, (name, ratios) in enumerate(series.items()):
        marker = style.MARKERS[number % len(style.MARKERS)]
        shift = (number - (len(series) - 1) / 2) * 0.19
        for line, (rival, value) in enumerate(zip(rivals, ratios, strict=True)):
            if value is None:
                continue
            seen += [value.min, value.max]
            axes.errorbar(
                value.median, line + shift, xerr=[[each] for each in style.error(value)],
                fmt=marker, markersize=6, capsize=3, color=style.colour(rival),
            )  # fmt: skip
            if len(series) == 1:
                axes.annotate(
                    f"{style.short(value.median)} x", (value.max, line), xytext=(8, 0),
                    textcoords="offset points", va="center", fontsize=8.5,
                )  # fmt: skip
        axes.plot([], [], color="#555555", marker=marker, linestyle="none", label=name)
    axes.axvline(1.0, color=style.BLACK, linewidth=1, linestyle="--")
    axes.set_yticks(range(len(rivals)), [style.arm_label(rival) for rival in rivals])
    axes.set_ylim(len(rivals) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=True, axis="x", color=style.FAINT, linewidth=0.8)
    axes.set_xlabel(unit)
    if from_zero:
        style.scale_axis(axes.xaxis, seen, unit)
    else:
        # Differences of a few per cent are what this panel is about.
        room = max(0.05, (max(seen) - min(seen)) * 0.1)
        axes.set_xlim(min(seen) - room, max(seen) + room)
