"""When the tasks of a lost worker ran again: a dot for each trial, against the lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["draw"]

COLOURS = {"prefork": "#0072B2", "threads": "#D55E00", "solo": "#009E73", "gevent": "#CC79A7"}
WORDS = {
    "kill": "worker killed",
    "freeze": "worker frozen,\nlater resumed",
    "oom": "out of memory",
    "clock": "host's clock\nstepped",
}


def draw(recoveries: Mapping[tuple[str, str], Sequence[float]], lease: float, path: Path) -> None:
    """Save the chart as PNG at ``path``; ``recoveries`` in seconds, by pool and fault."""
    # The object interface needs no display and no global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.6), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    faults = list(dict.fromkeys(fault for _, fault in recoveries))
    pools = [pool for pool in COLOURS if any(pool == each for each, _ in recoveries)]
    for column, fault in enumerate(faults):
        for place, pool in enumerate(pools):
            times = recoveries.get((pool, fault))
            x = column + 0.18 * (place - (len(pools) - 1) / 2)
            if times:
                axes.plot(
                    [x] * len(times), times, color=COLOURS[pool], linestyle="none", marker="o",
                    markersize=5, alpha=0.75,
                )  # fmt: skip
            elif times is not None:
                axes.annotate("none", (x, 0), rotation=90, ha="center", va="bottom", fontsize=8)
    for leases, style in ((1, "--"), (2, "-")):
        axes.axhline(lease * leases, color="#222222", linewidth=1, linestyle=style)
        axes.annotate(
            f"{leases} lease{'s' * (leases > 1)}", (1, lease * leases),
            xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=8,
        )  # fmt: skip
    for pool in pools:
        axes.plot([], [], color=COLOURS[pool], linestyle="none", marker="o", label=pool)
    axes.set_xlim(-0.5, len(faults) - 0.5)
    axes.set_ylim(0, lease * 2.3)
    axes.set_xticks(range(len(faults)), [WORDS.get(fault, fault) for fault in faults])
    axes.set_ylabel("seconds until all that was lost runs again")
    axes.set_title("Recovery from the loss of a worker", loc="left", fontweight="bold", fontsize=11)
    axes.legend(fontsize=8, loc="upper left", frameon=False, ncols=4)
    axes.grid(visible=True, axis="y", color="#E4E4E4", linewidth=0.8)
    axes.set_axisbelow(True)
    figure.savefig(path)
