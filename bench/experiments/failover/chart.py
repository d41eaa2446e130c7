"""The outage of every trial as a dot, with the line that the model predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.experiments.failover.moments import Trial

__all__ = ["draw"]

COLOURS = {
    "none": "#999999", "graceful": "#009E73", "crash": "#D55E00", "single": "#222222",
    "pause": "#0072B2",
}  # fmt: skip
WORDS = {
    "none": "nothing\nhappens", "graceful": "leader\nstopped", "crash": "leader\nkilled",
    "single": "killed, with\nno standby", "pause": "leader frozen\nfor two leases",
}  # fmt: skip

#: Trials by arm and lease.
Cells = Mapping[str, Mapping[float, Sequence[Trial]]]


def draw(cells: Cells, path: Path) -> None:
    """Save the chart as PNG at ``path``; OSError when it cannot be written."""
    # The object interface needs no display and no global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 5.6), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(2.2, 1))
    _outages(left, cells)
    _model(right, {arm: cells[arm] for arm in ("crash", "pause") if arm in cells})
    figure.suptitle("How long dispatch stands still", x=0.01, ha="left", fontweight="bold")
    figure.savefig(path)


def _outages(axes: Any, cells: Cells) -> None:
    """One column for each arm and lease, side by side; milliseconds by logarithm."""
    ticks, column = list[tuple[float, str]](), 0.0
    groups = list[tuple[float, str]]()
    longest = max(
        (
            each.outage_ms or each.watched_ms or 1
            for by_ttl in cells.values() for trials in by_ttl.values() for each in trials
        ),
        default=1,
    )  # fmt: skip
    for arm, by_ttl in cells.items():
        first = column
        for ttl, trials in by_ttl.items():
            _column(axes, column, arm, trials, longest)
            ticks.append((column, f"{ttl:g} s"))
            column += 1
        groups.append(((first + column - 1) / 2, WORDS[arm]))
        column += 0.6
    axes.set_yscale("log")
    axes.set_ylim(0.8, longest * 8)
    axes.set_xticks([at for at, _ in ticks], [text for _, text in ticks])
    for at, text in groups:
        axes.annotate(
            text, (at, 0), xycoords=("data", "axes fraction"), xytext=(0, -22),
            textcoords="offset points", ha="center", va="top", fontsize=9,
        )  # fmt: skip
    axes.yaxis.set_major_formatter(lambda ms, _: f"{ms:g} ms" if ms < 1000 else f"{ms / 1000:g} s")
    axes.set_ylabel("longest time without a dispatch (log)")
    axes.set_title("every trial, by lease", loc="left", fontsize=10)
    axes.plot([], [], color="black", linewidth=1.5, label="time until the lease is free\n"
              "+ time until a standby acts (medians)")  # fmt: skip
    axes.plot([], [], color="black", linestyle="none", marker="^", label="never recovered")
    axes.legend(fontsize=8, loc="upper left", frameon=False, ncols=2)
    axes.grid(visible=True, axis="y", color="#E4E4E4", linewidth=0.8)
    axes.set_axisbelow(True)


def _column(axes: Any, at: float, arm: str, trials: Sequence[Trial], longest: int) -> None:
    width = 0.5 if len(trials) > 1 else 0.0
    places = [
        at + width * (number / max(1, len(trials) - 1) - 0.5) for number in range(len(trials))
    ]
    ends = [(x, each) for x, each in zip(places, trials, strict=True)]
    axes.plot(
        [x for x, each in ends if each.outage_ms is not None],
        [max(1, each.outage_ms) for _, each in ends if each.outage_ms is not None],
        color=COLOURS[arm], linestyle="none", marker="o", markersize=4, alpha=0.75,
    )  # fmt: skip
    never = [(x, each) for x, each in ends if each.outage_ms is None]
    for x, each in never:
        axes.plot(
            [x, x], [each.watched_ms, longest * 2.2], color=COLOURS[arm], linewidth=0.5, alpha=0.4
        )
    axes.plot(
        [x for x, _ in never], [longest * 2.2] * len(never),
        color=COLOURS[arm], linestyle="none", marker="^", markersize=5,
    )  # fmt: skip
    terms = [(e.lease_ms, e.act_ms) for e in trials if e.lease_ms is not None and e.act_ms]
    if arm in ("crash", "pause") and terms:
        line = median(lease for lease, _ in terms) + median(act for _, act in terms if act)
        axes.plot([at - 0.42, at + 0.42], [line, line], color="black", linewidth=1.5, zorder=3)


def _model(axes: Any, cells: Cells) -> None:
    """The outage of each trial against the time until its lease was free; seconds."""
    top = 0.0
    for arm, by_ttl in cells.items():
        several = [
            (each.lease_ms / 1000, each.outage_ms / 1000)
            for trials in by_ttl.values() for each in trials
            if each.outage_ms is not None and each.lease_ms is not None
        ]  # fmt: skip
        axes.plot(
            [x for x, _ in several], [y for _, y in several], color=COLOURS[arm],
            linestyle="none", marker="o", markersize=4, alpha=0.75,
            label=WORDS[arm].replace("\n", " "),
        )  # fmt: skip
        top = max([top, *(value for pair in several for value in pair)])
    acts = [
        each.act_ms for by_ttl in cells.values() for trials in by_ttl.values() for each in trials
        if each.act_ms is not None
    ]  # fmt: skip
    if acts:
        act = median(acts)
        axes.plot([0, top], [act / 1000, top + act / 1000], color="black", linewidth=1)
        axes.set_title(f"the line: until the lease is free + {act:g} ms", loc="left", fontsize=10)
        axes.legend(fontsize=8, loc="upper left", frameon=False)
    axes.set_xlabel("seconds until the lease is free")
    axes.set_ylabel("outage, seconds")
    axes.grid(visible=True, color="#E4E4E4", linewidth=0.8)
    axes.set_axisbelow(True)
