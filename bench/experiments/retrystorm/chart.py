"""The storm as a picture: retries a tenth of a second, one panel for each kind of back-off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from bench.experiments.retrystorm.moments import Moments

__all__ = ["draw"]

#: Seconds of one bar.
BAR = 0.1


def draw(moments: Mapping[str, Moments], path: Path) -> None:
    """Save the chart as PNG at ``path``; OSError when it cannot be written."""
    # The object interface needs no display and no global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5.6), dpi=120)
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(moments), 1, sharex=True, sharey=True)
    for axes, (name, each) in zip(panels, moments.items(), strict=True):
        began = min(each.failed)
        bars = Counter(int((at - began) / BAR) for at in each.started)
        axes.bar(
            [bar * BAR for bar in bars], list(bars.values()), width=BAR, align="edge",
            color="#0072B2" if name == "decorrelated" else "#9A9A9A",
        )  # fmt: skip
        axes.set_title(name.replace("_", " "), loc="left", fontweight="bold")
        axes.grid(visible=True, axis="y", color="#E4E4E4", linewidth=0.8)
        axes.set_axisbelow(True)
    panels[-1].set_xlabel("seconds after the first failure")
    panels[len(panels) // 2].set_ylabel(f"retries in {BAR * 1000:.0f} ms")
    figure.suptitle(
        f"{len(next(iter(moments.values())).failed):,} tasks fail at one moment: "
        "when their retries come", x=0.01, ha="left", fontweight="bold",
    )  # fmt: skip
    figure.tight_layout()
    figure.savefig(path)
