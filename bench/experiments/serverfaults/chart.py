"""The picture: how long after the end of each fault dispatch and settlement went on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.experiments.serverfaults.account import Trial
from bench.experiments.serverfaults.plan import FAULTS, Plan

__all__ = ["draw"]

_MARKS = {"dispatch": ("#0072B2", "o", -0.14), "settlement": ("#D55E00", "s", 0.14)}


def draw(trials: Mapping[str, Sequence[Trial]], path: Path, plan: Plan) -> None:
    """Write the picture as a PNG: a point for each trial, and the limit."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(trials)
    figure = Figure(figsize=(9, 1.6 + 0.36 * len(names)), layout="constrained")
    axes = figure.add_subplot()
    for what, (colour, marker, shift) in _MARKS.items():
        points = [
            (getattr(each, what), row + shift)
            for row, name in enumerate(names)
            for each in trials[name]
            if getattr(each, what) is not None
        ]
        axes.plot(
            [at for at, _ in points], [row for _, row in points], linestyle="none", color=colour,
            marker=marker, markersize=5, alpha=0.8, label=f"{what} goes on",
        )  # fmt: skip
    axes.axvline(plan.resume, color="#B00020", linewidth=1, linestyle="--", label="limit")
    axes.set_yticks(range(len(names)), [FAULTS[name].words for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds after the end of the fault")
    axes.grid(axis="y", color="#E3E3E3")
    axes.set_axisbelow(True)
    axes.legend(loc="lower right", fontsize=8)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(str(path))
