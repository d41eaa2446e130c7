"""The tail ratio: how much longer the slowest hundredth takes than the middle."""

from __future__ import annotations

from matplotlib.figure import Figure

from bench.harness.plots.panels import Bars, draw_bars
from bench.harness.plots.view import View

__all__ = ["draw"]

SPEC = Bars(
    title="Tail ratio",
    note="p99 latency over the median latency.",
    unit="p99 / p50",
    real=lambda cell: cell.real.tail_ratio,
    ideal=lambda cell: cell.ideal.tail_ratio,
    points=True,
)


def draw(view: View) -> Figure | None:
    """Return the plot, or None without such figures."""
    return draw_bars(SPEC, view, view.single())
