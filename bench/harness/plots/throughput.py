"""Completed tasks per second, from the first submission to the last completion."""

from __future__ import annotations

from matplotlib.figure import Figure

from bench.harness.plots.panels import Bars, draw_bars
from bench.harness.plots.view import View

__all__ = ["draw"]

SPEC = Bars(
    title="Throughput",
    note="Completed tasks / seconds from the first submission to the last completion.",
    unit="tasks per second",
    real=lambda cell: cell.real.throughput,
    ideal=lambda cell: cell.ideal.throughput,
)


def draw(view: View) -> Figure | None:
    """Return the plot, or None without such figures."""
    return draw_bars(SPEC, view, view.single())
