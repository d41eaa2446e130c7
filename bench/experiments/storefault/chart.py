"""The arms as bars: what became of every submission, and how often an epoch was given twice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["draw"]

WORDS = {
    "caught-up": "replicas follow",
    "cut-plain": "cut off,\nepochs counted by the server alone",
    "cut": "cut off",
    "cut-workers-know": "cut off, and all schedulers\ndie as well",
    "cut-forgotten": "cut off, and all who knew\nthe epoch die as well",
    "cut-wait": "cut off,\nleader_replicas = 1",
    "cut-min-replicas": "cut off,\nmin-replicas-to-write 1",
    "stall-min-replicas": "silent, not cut off,\nmin-replicas-to-write 1",
    "apart": "primary alive, apart from its\nreplicas with its clients",
    "apart-min-replicas": "the same,\nmin-replicas-to-write 1",
}
#: Parts of a bar from the left, with their colours.
PARTS = {
    "kept": ("accepted and completed", "#009E73"),
    "run": ("run, and its record destroyed", "#F0A860"),
    "destroyed": ("accepted, destroyed, never run", "#D55E00"),
    "refused": ("refused", "#999999"),
    "unknown": ("unknown to its caller", "#E4C441"),
}


def draw(figures: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Save the chart as PNG at ``path``; OSError when it cannot be written."""
    # The object interface needs no display and no global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 1.6 + 0.55 * len(figures)), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    names = list(figures)[::-1]
    left = [0.0] * len(names)
    for part, (label, colour) in PARTS.items():
        widths = [_share(figures[name], part) for name in names]
        if not any(widths):
            continue
        axes.barh(names, widths, left=left, color=colour, label=label, height=0.7)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    top = max(left)
    for row, name in enumerate(names):
        each = figures[name]
        twice, resumed = each["epochs_given_twice"], each["dispatching_ms"]
        axes.text(
            top * 1.015, row,
            f"epochs given twice: {twice / each['trials']:.2g}\n"
            + (f"dispatches after {resumed['median'] / 1000:.1f} s" if resumed else "never again"),
            va="center", fontsize=8, color="#D55E00" if twice else "black",
            fontweight="bold" if twice else "normal",
        )  # fmt: skip
    axes.set_yticks(range(len(names)), [WORDS[name] for name in names], fontsize=9)
    axes.set_xlim(0, top * 1.27)
    axes.set_xlabel("submissions in a trial")
    axes.grid(visible=True, axis="x", color="#E4E4E4", linewidth=0.8)
    axes.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.suptitle(
        "The primary dies: what its replicas did not have is gone", x=0.01, ha="left",
        fontweight="bold",
    )  # fmt: skip
    figure.savefig(path)


def _share(each: Mapping[str, Any], part: str) -> float:
    """Return the part of a bar, in submissions of one trial."""
    destroyed, run = each["destroyed"], each["destroyed_run"]
    values = {
        "kept": each["accepted"] - destroyed, "run": run, "destroyed": destroyed - run,
        "refused": each["refused"], "unknown": each["unknown"],
    }  # fmt: skip
    return float(values[part]) / float(each["trials"])
