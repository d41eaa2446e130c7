"""Jain's index over what tenants received in the whole run, with the least it can be."""

from __future__ import annotations

from matplotlib.figure import Figure

from bench.harness.plots.panels import Bars, draw_bars
from bench.harness.plots.view import Place, View

__all__ = ["draw", "floor"]


def floor(place: Place, view: View) -> float | None:
    """Return 1/n for the n tenants of a place: everything went to one of them."""
    tenants = [len(cell.tenants) for arm in view.arms_at(place) for cell in view.at(place, arm)]
    return 1 / max(tenants) if any(tenants) else None


SPEC = Bars(
    title="Jain's index, whole run",
    note="Slot-seconds per tenant. All that was sent is served in the end, so this is the demand.",
    unit="index: 1 = every tenant received the same",
    real=lambda cell: cell.real.jain_service,
    ideal=lambda cell: cell.ideal.jain_service,
    digits=3,
    top=1.0,
    floor=floor,
    floor_name="1/n, the least it can be",
)


def draw(view: View) -> Figure | None:
    """Return the plot, or None without such figures."""
    return draw_bars(SPEC, view, view.single())
