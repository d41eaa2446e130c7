"""The plots of a run: each is a file with one ``draw(view)`` that may have nothing to show."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

from matplotlib import rc_context
from matplotlib.figure import Figure

from bench.harness.plots import (
    competing,
    crossover,
    jain,
    latency,
    longest,
    misses,
    priorities,
    rivals,
    style,
    sweep,
    tail,
    tenants,
    throughput,
    utilisation,
)
from bench.harness.plots.view import View

__all__ = ["PLOTS", "Plot", "View", "render"]


#: File name of each plot, in the order of the report.
PLOTS: dict[str, ModuleType] = {
    "rivals": rivals,
    "crossover": crossover,
    "sweep": sweep,
    "latency": latency,
    "tail_ratio": tail,
    "tenants_p95": tenants,
    "priorities_p95": priorities,
    "missed_deadlines": misses,
    "longest_wait": longest,
    "throughput": throughput,
    "utilisation": utilisation,
    "jain": jain,
    "jain_competing": competing,
}


class Plot(NamedTuple):
    """One finished plot in both formats; ``name`` is its file name without the ending."""

    name: str
    caption: str
    png: bytes
    svg: bytes


def render(view: View) -> Iterator[Plot]:
    """Draw all plots that these cells have figures for. Equal figures make equal bytes."""
    for name, module in PLOTS.items():
        with rc_context(style.RC):
            figure: Figure | None = module.draw(view)
        if figure is not None:
            caption = (module.__doc__ or name).partition("\n")[0]
            yield Plot(name, caption, style.to_png(figure), style.to_svg(figure))
