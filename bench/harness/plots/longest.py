"""The longest time that any task waited before it started."""

from __future__ import annotations

from matplotlib.figure import Figure

from bench.harness.plots.panels import Bars, draw_bars
from bench.harness.plots.view import View

__all__ = ["draw"]

SPEC = Bars(
    title="Longest wait",
    note="The longest time from submission to start that any task of a cell saw.",
    unit="seconds",
    real=lambda cell: cell.real.wait_max,
    ideal=lambda cell: cell.ideal.wait_max,
    points=True,
)


def draw(view: View) -> Figure | None:
    """Return the plot, or None without such figures."""
    return draw_bars(SPEC, view, view.single())
