"""Jain's index over cost by weight, while tenants had tasks waiting side by side."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from bench.harness.plots import jain
from bench.harness.plots.panels import draw_bars
from bench.harness.plots.view import View

__all__ = ["draw"]

SPEC = replace(
    jain.SPEC,
    title="Jain's index, while tenants compete",
    note="Cost / weight per tenant, while they had work waiting side by side (–: they never had).",
    unit="index: 1 = in proportion to the weights",
    real=lambda cell: cell.real.jain_weighted,
    ideal=lambda cell: cell.ideal.jain_weighted,
)


def draw(view: View) -> Figure | None:
    """Return the plot, or None without such figures."""
    return draw_bars(SPEC, view, view.single())
