"""The p95 latency of every tenant, where one sends more than all others together."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from bench.harness.plots.groups import ideal_p95, real_p95
from bench.harness.plots.panels import Marks, draw_marks
from bench.harness.plots.view import Place, View

__all__ = ["draw", "skewed"]


def skewed(place: Place, view: View) -> bool:
    """Return whether one tenant of a place sends more than all others together."""
    return any(cell.quiet is not None for cell in view.at(place, view.arms_at(place)[0]))


def _names(places: Sequence[Place], view: View) -> list[str]:
    names: dict[str, None] = {}
    for place in places:
        big, *others = view.at(place, view.arms_at(place)[0])[0].tenants
        names |= dict.fromkeys([big.name, *sorted(group.name for group in others)])
    return list(names)


SPEC = Marks(
    title="Latency by tenant",
    note="p95 from submission to completion; the tenant named first sends the most.",
    unit="seconds",
    names=_names,
    real=lambda cell, name: real_p95(cell.tenants, name),
    ideal=lambda cell, name: ideal_p95(cell.tenants, name),
)


def draw(view: View) -> Figure | None:
    """Return the plot, or None when no workload is skewed."""
    return draw_marks(SPEC, view, [place for place in view.single() if skewed(place, view)])
