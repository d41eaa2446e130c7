"""Median, p95 and p99 of the latency from submission to completion."""

from __future__ import annotations

from matplotlib.figure import Figure

from bench.harness.figures import Figures
from bench.harness.plots.panels import Marks, draw_marks
from bench.harness.plots.view import View

__all__ = ["draw"]

PERCENTILES = ("p50", "p95", "p99")


def _of(figures: Figures, name: str) -> float | None:
    value: float | None = getattr(figures, f"latency_{name}")
    return value


SPEC = Marks(
    title="Latency",
    note="From submission to completion, all tasks of a cell.",
    unit="seconds",
    names=lambda places, view: PERCENTILES,
    real=lambda cell, name: _of(cell.real, name),
    ideal=lambda cell, name: _of(cell.ideal, name),
)


def draw(view: View) -> Figure | None:
    """Return the plot, or None without cells of a single load."""
    return draw_marks(SPEC, view, view.single())
