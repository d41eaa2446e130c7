"""How much of the slots' time completed tasks used."""

from __future__ import annotations

from matplotlib.figure import Figure

from bench.harness.plots.panels import Bars, draw_bars
from bench.harness.plots.view import View

__all__ = ["draw"]

SPEC = Bars(
    title="Utilisation",
    note="Slot-seconds of completed tasks / slots x makespan.",
    unit="per cent of the slot-seconds",
    real=lambda cell: cell.real.utilisation,
    ideal=lambda cell: cell.ideal.utilisation,
    percent=True,
    top=100.0,
)


def draw(view: View) -> Figure | None:
    """Return the plot, or None without such figures."""
    return draw_bars(SPEC, view, view.single())
