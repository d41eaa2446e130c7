"""The share of completed tasks that ended after their deadline."""

from __future__ import annotations

from matplotlib.figure import Figure

from bench.harness.plots.panels import Bars, draw_bars
from bench.harness.plots.view import View

__all__ = ["draw"]

SPEC = Bars(
    title="Missed deadlines",
    note="Share of the completed tasks that ended after their deadline; on it is a hit.",
    unit="per cent of completed tasks",
    real=lambda cell: cell.real.miss_rate,
    ideal=lambda cell: cell.ideal.miss_rate,
    percent=True,
)


def draw(view: View) -> Figure | None:
    """Return the plot, or None without such figures."""
    return draw_bars(SPEC, view, view.single())
