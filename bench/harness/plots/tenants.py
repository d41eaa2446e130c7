"""The p95 latency of every tenant, where some send much more than others."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from bench.harness.plots.groups import ideal_p95, real_p95
from bench.harness.plots.panels import Marks, draw_marks
from bench.harness.plots.view import Place, View

__all__ = ["draw", "skewed"]

#: The largest tenant of a skewed workload sends at least this many times what the smallest does.
SKEW = 2.0


def skewed(place: Place, view: View) -> bool:
    """Return whether the tenants of a place are of very different sizes."""
    cell = view.at(place, view.arms_at(place)[0])[0]
    sizes = [group.real.tasks for group in cell.tenants if group.real.tasks]
    return len(sizes) > 1 and max(sizes) >= SKEW * min(sizes)


def _names(places: Sequence[Place], view: View) -> list[str]:
    cells = [view.at(place, view.arms_at(place)[0])[0] for place in places]
    return list(dict.fromkeys(group.name for cell in cells for group in cell.tenants))


SPEC = Marks(
    title="Latency by tenant",
    note="p95 from submission to completion; the tenant named first sends the most.",
    unit="seconds (log)",
    names=_names,
    real=lambda cell, name: real_p95(cell.tenants, name),
    ideal=lambda cell, name: ideal_p95(cell.tenants, name),
)


def draw(view: View) -> Figure | None:
    """Return the plot, or None when no workload is skewed."""
    return draw_marks(SPEC, view, [place for place in view.single() if skewed(place, view)])
