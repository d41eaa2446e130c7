"""The partitions as a picture: who dispatched or settled, a panel for each arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from bench.experiments.partition.run import Trial

__all__ = ["draw"]

#: Seconds of one bar, and how many before the cut are shown.
BAR, SHOWN = 0.25, 2.0
COLOURS = {True: "#D55E00", False: "#0072B2"}
#: Most panels beside each other.
COLUMNS = 2


def draw(trials: Mapping[str, Trial], path: Path) -> None:
    """Save the chart as PNG at ``path``; OSError when it cannot be written."""
    # The object interface needs no display and no global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = -(-len(trials) // COLUMNS)
    figure = Figure(figsize=(11, 0.9 + 1.45 * rows), dpi=120)
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, COLUMNS, squeeze=False).flatten()
    for axes, (name, trial) in zip(panels, trials.items(), strict=False):
        account = trial.account
        shown = [each for each in trial.moments if each[0] >= -SHOWN]
        axes.axvspan(0, account.seconds, color="#EEEEEE")
        bottom: Counter[int] = Counter()
        for cut_off, colour in COLOURS.items():
            bars = Counter(int(at // BAR) for at, mine in shown if mine is cut_off)
            axes.bar(
                [bar * BAR for bar in bars], [count / BAR for count in bars.values()], width=BAR,
                bottom=[bottom[bar] / BAR for bar in bars], align="edge", color=colour,
            )  # fmt: skip
            bottom.update(bars)
        word = "no dispatch for" if name.startswith("leader") else "all it ran settled after"
        axes.set_title(
            f"{name}: {word} {account.resumed:.2f} s", loc="left", fontsize=9, fontweight="bold"
        )
        axes.set_axisbelow(True)
        axes.grid(visible=True, axis="y", color="#E4E4E4", linewidth=0.8)
    for axes in panels[len(trials) :]:
        axes.set_axis_off()
    panels[0].set_ylabel("tasks per second", fontsize=8)
    figure.suptitle(
        "Dispatched (leader cut off) or settled (worker cut off) by the side that was cut off "
        "(orange) and by the others (blue); grey: cut off", x=0.01, ha="left", fontsize=9,
    )  # fmt: skip
    figure.supxlabel("seconds after the cut", fontsize=9)
    figure.tight_layout()
    figure.savefig(path)
