"""The picture of a soak: tasks settled per second, and every fault where it happened."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.experiments.soak.run import Findings, Plan

__all__ = ["draw"]

COLOURS = {
    "worker killed": "#c44e52",
    "worker stopped": "#dd8452",
    "leader killed": "#8172b3",
    "server": "#000000",
}


def draw(findings: Findings, plan: Plan, path: Path) -> None:
    """Write the picture as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.add_subplot()
    points = findings.settled
    axes.plot(
        [at for at, _ in points[1:]],
        [
            (after - before) / max(at - earlier, 1e-9)
            for (earlier, before), (at, after) in pairwise(points)
        ],
        color="#4c72b0", linewidth=1, label="settled per second",
    )  # fmt: skip
    axes.axhline(plan.rate, color="#999999", linewidth=1, linestyle="--", label="sent per second")
    for kind, colour in COLOURS.items():
        times = [
            fault.at - findings.started for fault in findings.faults if fault.kind.startswith(kind)
        ]
        axes.plot(
            times, [-0.04 * plan.rate * (1 + list(COLOURS).index(kind))] * len(times),
            linestyle="none", marker="|", markersize=9, color=colour,
            label=f"{kind} ended and restarted" if kind == "server" else kind,
        )  # fmt: skip
    axes.set_xlabel("seconds")
    axes.set_ylabel("tasks per second")
    axes.set_title(
        f"{findings.account.tasks:,} tasks, {len(findings.faults)} faults: "
        f"{len(findings.account.lost)} lost, {len(findings.account.settled_twice)} settled twice"
    )
    axes.legend(ncols=3, fontsize=8, loc="upper right")
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(str(path))
