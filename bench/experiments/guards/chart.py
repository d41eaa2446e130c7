"""The guards as a picture: violations a run with each guard and without it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import mean

from bench.experiments.guards.account import GUARDS, Shown

__all__ = ["draw"]

COLOURS = {"with": "#0072B2", "without": "#D55E00"}


def draw(runs: Mapping[str, Mapping[str, list[Shown]]], path: Path) -> None:
    """Save the chart as PNG at ``path``; OSError when it cannot be written."""
    # The object interface needs no display and no global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    guards = [guard for guard in GUARDS if guard.name in runs]
    figure = Figure(figsize=(9, 0.9 + 0.55 * len(guards)), dpi=120)
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for offset, (word, colour) in enumerate(COLOURS.items()):
        found = [
            mean(each.violations(guard) for each in runs[guard.name][word]) for guard in guards
        ]
        places = [number + 0.4 * offset - 0.2 for number in range(len(guards))]
        axes.barh(places, found, height=0.38, color=colour, label=f"{word} the guard")
        for place, count in zip(places, found, strict=True):
            axes.text(count, place, f" {count:g}", va="center", fontsize=8)
    axes.set_yticks(
        range(len(guards)), [f"{guard.name}\n({guard.violation})" for guard in guards], fontsize=8
    )
    axes.invert_yaxis()
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(left=0)
    axes.margins(x=0.12)
    axes.set_xlabel("violations in one run, mean", loc="left")
    axes.set_title("The same fault with each guard and without it", loc="left", fontweight="bold")
    axes.legend(fontsize=8, loc="upper right", bbox_to_anchor=(1.0, -0.06), frameon=False, ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path)
