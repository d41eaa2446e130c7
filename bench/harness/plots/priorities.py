"""The p95 latency of every priority level."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from bench.harness.plots.groups import ideal_p95, real_p95
from bench.harness.plots.panels import Marks, draw_marks
from bench.harness.plots.view import Place, View

__all__ = ["draw"]

_LEVEL = "level "


def _levels(place: Place, view: View) -> list[int]:
    cell = view.at(place, view.arms_at(place)[0])[0]
    return [int(group.name) for group in cell.priorities]


def _names(places: Sequence[Place], view: View) -> list[str]:
    levels = {level for place in places for level in _levels(place, view)}
    return [f"{_LEVEL}{level}" for level in sorted(levels, reverse=True)]


SPEC = Marks(
    title="Latency by priority level",
    note="p95 from submission to completion; the highest level is the most urgent.",
    unit="seconds",
    names=_names,
    real=lambda cell, name: real_p95(cell.priorities, name.removeprefix(_LEVEL)),
    ideal=lambda cell, name: ideal_p95(cell.priorities, name.removeprefix(_LEVEL)),
)


def draw(view: View) -> Figure | None:
    """Return the plot, or None when no workload has several levels."""
    return draw_marks(SPEC, view, [each for each in view.single() if len(_levels(each, view)) > 1])
