"""The two shapes that most plots have: a panel for each place, in it a row for each arm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bench.harness.measure import Spread
from bench.harness.plots import style
from bench.harness.plots.view import Place, View
from bench.harness.summary import CellSummary

__all__ = ["Bars", "Marks", "draw_bars", "draw_marks"]

#: More panels than this are no plot any more: the tables have the figures.
MOST = 12


@dataclass(frozen=True, slots=True)
class Bars:
    """One figure of every cell. ``points`` instead of bars allow for a logarithmic axis.

    ``digits`` are the decimals of the label (None: three significant digits).
    ``floor`` is the least value the figure can have at a place, drawn as a line with its name.
    """

    title: str
    note: str
    unit: str
    real: Callable[[CellSummary], float | None]
    ideal: Callable[[CellSummary], float | None]
    points: bool = False
    digits: int | None = None
    percent: bool = False
    top: float | None = None
    floor: Callable[[Place, View], float | None] | None = None
    floor_name: str = ""


@dataclass(frozen=True, slots=True)
class Marks:
    """Several figures of the same kind for every cell, as points.

    ``names`` are the series at the places given, ``real`` and ``ideal`` look one up in a cell.
    """

    title: str
    note: str
    unit: str
    names: Callable[[Sequence[Place], View], Sequence[str]]
    real: Callable[[CellSummary, str], float | None]
    ideal: Callable[[CellSummary, str], float | None]


def draw_bars(spec: Bars, view: View, places: Sequence[Place]) -> Figure | None:
    """Return the plot, or None when there is nothing to draw."""
    places = [
        place
        for place in places
        if any(view.spread(place, arm, spec.real) for arm in view.arms_at(place))
    ][:MOST]
    if not places:
        return None
    figure, panels = _grid(spec.title, spec.note, view, places)
    for axes, place in zip(panels, places, strict=True):
        _bars(spec, view, place, axes)
    handles = [
        Line2D([], [], color=style.BLACK, linewidth=2, marker="|", markersize=11,
               linestyle="none", markeredgewidth=2, label="ideal server, same arrivals"),
    ]  # fmt: skip
    if spec.floor is not None:
        handles.append(Line2D([], [], color=style.GREY, linestyle="--", label=spec.floor_name))
    _legend(figure, handles)
    return figure


def draw_marks(spec: Marks, view: View, places: Sequence[Place]) -> Figure | None:
    """Return the plot, or None when there is nothing to draw."""
    places = list(places)[:MOST]
    names = list(spec.names(places, view)) if places else []
    if not names:
        return None
    figure, panels = _grid(spec.title, spec.note, view, places)
    for axes, place in zip(panels, places, strict=True):
        _marks(spec, names, view, place, axes)
    handles = [
        Line2D([], [], color="#555555", marker=marker, linestyle="none", markersize=6, label=name)
        for name, marker in zip(names, style.MARKERS, strict=False)
    ]
    handles.append(
        Line2D([], [], markerfacecolor="white", markeredgecolor=style.GREY, marker="o",
               color=style.GREY, linewidth=1, markersize=5, label="below: ideal, same arrivals")
    )  # fmt: skip
    _legend(figure, handles)
    return figure


def _grid(title: str, note: str, view: View, places: Sequence[Place]) -> tuple[Figure, list[Axes]]:
    columns = min(2, len(places))
    lines = math.ceil(len(places) / columns)
    rows = max(len(view.arms_at(place)) for place in places)
    height = 1.25 + lines * (0.95 + 0.34 * max(rows, 3))
    figure = style.sheet(title, note, view, 11.0, height)
    grid = figure.subplots(lines, columns, squeeze=False)
    panels = list(grid.flat)
    for axes in panels[len(places) :]:
        axes.set_axis_off()
    for axes, place in zip(panels, places, strict=False):
        arms = view.arms_at(place)
        axes.set_title(view.title(place))
        axes.set_yticks(range(len(arms)), [style.arm_label(arm) for arm in arms])
        axes.set_ylim(len(arms) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(visible=True, axis="x", color=style.FAINT, linewidth=0.8)
    return figure, panels[: len(places)]


def _legend(figure: Figure, handles: Sequence[Line2D]) -> None:
    figure.legend(handles=list(handles), loc="upper right", ncols=len(handles), fontsize=9,
                  bbox_to_anchor=(1.0, 1.0), columnspacing=1.2, handletextpad=0.4)  # fmt: skip


def _bars(spec: Bars, view: View, place: Place, axes: Axes) -> None:
    scale = 100.0 if spec.percent else 1.0
    ends: list[float] = []
    starts: list[float] = []
    labels: list[tuple[int, float, str]] = []
    for line, arm in enumerate(view.arms_at(place)):
        real = view.spread(place, arm, spec.real)
        ideal = view.spread(place, arm, spec.ideal)
        if real is not None:
            real = Spread(*(value * scale for value in real))
            whiskers = [[each] for each in style.error(real)]
            if spec.points:
                axes.errorbar(real.median, line, xerr=whiskers, fmt="o", markersize=8, capsize=4,
                              color=style.colour(arm), elinewidth=1.5)  # fmt: skip
            else:
                axes.barh(line, real.median, height=0.62, color=style.colour(arm), alpha=0.85)
                if real.max > real.min:
                    axes.errorbar(real.median, line, xerr=whiskers, fmt="none", capsize=4,
                                  ecolor=style.BLACK, elinewidth=1.2)  # fmt: skip
            ends.append(real.max)
            starts.append(real.min)
            labels.append((line, real.max, _label(spec, real.median)))
        else:
            labels.append((line, 0.0, "–"))
        if ideal is not None:
            middle = ideal.median * scale
            axes.plot([middle, middle], [line - 0.36, line + 0.36], color=style.BLACK, linewidth=2)
            ends.append(middle)
            starts.append(middle)
            if labels and labels[-1][0] == line:
                labels[-1] = line, max(labels[-1][1], middle), labels[-1][2]
    positive = [value for value in (*starts, *ends) if value > 0]
    axes.set_xlabel(spec.unit)
    if spec.points and positive:
        style.scale_axis(axes.xaxis, positive, spec.unit)
    else:
        axes.set_xlim(0, max([*ends, spec.top or 0.0, 1e-9]) * 1.14)
    for line, at, label in labels:
        axes.annotate(label, (at, line), xytext=(7, 0), textcoords="offset points", va="center",
                      fontsize=8.5, color=style.BLACK)  # fmt: skip
    if spec.floor is not None and (floor := spec.floor(place, view)) is not None:
        axes.axvline(floor, color=style.GREY, linestyle="--", linewidth=1)


def _label(spec: Bars, value: float) -> str:
    return style.short(value) if spec.digits is None else f"{value:.{spec.digits}f}"


def _named(
    figure: Callable[[CellSummary, str], float | None], name: str, cell: CellSummary
) -> float | None:
    return figure(cell, name)


def _marks(spec: Marks, names: Sequence[str], view: View, place: Place, axes: Axes) -> None:
    seen: list[float] = []
    for line, arm in enumerate(view.arms_at(place)):
        for figure, y, filled in ((spec.real, line - 0.13, True), (spec.ideal, line + 0.24, False)):
            tone = style.colour(arm) if filled else style.GREY
            middles = []
            for name, marker in zip(names, style.MARKERS, strict=False):
                value = view.spread(place, arm, partial(_named, figure, name))
                if value is None or value.min <= 0:
                    continue
                middles.append(value.median)
                seen += [value.min, value.max]
                axes.errorbar(
                    value.median, y, xerr=[[each] for each in style.error(value)],
                    fmt=marker, markersize=7 if filled else 4.5, capsize=3 if filled else 0,
                    color=tone, markerfacecolor=tone if filled else "white",
                    markeredgecolor="white" if filled else tone, markeredgewidth=0.7,
                    ecolor=tone, elinewidth=1.1 if filled else 0.0, zorder=4 if filled else 3,
                )  # fmt: skip
            if middles:
                axes.plot([min(middles), max(middles)], [y, y], color=tone, zorder=2,
                          linewidth=2.2 if filled else 1, alpha=0.45)  # fmt: skip
    axes.set_xlabel(spec.unit)
    if seen:
        style.scale_axis(axes.xaxis, seen, spec.unit)
