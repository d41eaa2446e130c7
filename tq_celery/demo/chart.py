"""The demo's chart: every task a dot, when it was sent against how long it waited."""

from __future__ import annotations

import textwrap
from pathlib import Path

from tq_celery.demo.story import Story
from tq_celery.demo.workload import FLOOD, QUIET, SLOTS
from tq_celery.replay.engine import Run

__all__ = ["draw"]

#: Colours that stay apart for colour-blind readers; the flood is the quiet grey one.
_COLOURS = dict(zip((*QUIET, FLOOD), ("#0072B2", "#D55E00", "#9A9A9A"), strict=True))
_MARKERS = dict(zip((*QUIET, FLOOD), ("o", "^", "o"), strict=True))


def draw(stock: Run, fair: Run, story: Story, path: Path) -> None:
    """Save the chart as PNG at ``path``; OSError when it cannot be written."""
    # The object interface needs no display and no global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5.6), dpi=120)
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    arms = (
        ("stock Celery", stock, story.stock),
        ("tq-celery, weighted fair queuing", fair, story.fair),
    )
    for axes, (title, run, outcomes) in zip(panels, arms, strict=True):
        for tenant in (FLOOD, *QUIET):
            mine = [record for record in run.records if record.work.tenant == tenant]
            role = ", the flood" if tenant == FLOOD else ""
            axes.scatter(
                [record.submitted - run.began for record in mine],
                [record.served.wait for record in mine],
                s=12 if tenant == FLOOD else 42,
                marker=_MARKERS[tenant],
                color=_COLOURS[tenant],
                edgecolors="none" if tenant == FLOOD else "white",
                linewidths=0.6,
                zorder=2 if tenant == FLOOD else 3,
                label=f"{tenant}{role}: {len(mine)} tasks, "
                f"p95 wait {outcomes[tenant].waits.p95:.2f} s",
            )
        axes.set_title(title, loc="left", fontweight="bold")
        axes.set_xlabel("task sent, seconds into the run")
        axes.grid(visible=True, color="#E4E4E4", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlim(left=0)
        handles, labels = axes.get_legend_handles_labels()
        order = [1, 2, 0]
        axes.legend(
            [handles[i] for i in order],
            [labels[i] for i in order],
            loc="upper right",
            frameon=True,
            framealpha=0.9,
            edgecolor="none",
            fontsize=9,
        )
    panels[0].set_ylabel("wait until a worker starts it, seconds")
    top = max(record.served.wait for run in (stock, fair) for record in run.records)
    panels[0].set_ylim(-0.03 * top, 1.32 * top)
    figure.suptitle("\n".join(textwrap.wrap(story.sentence, 105)), x=0.012, ha="left", fontsize=12)
    figure.text(
        0.012,
        0.012,
        f"Same seeded work in both runs: one real Celery worker with {SLOTS} slots, late "
        "acknowledgement, one Valkey server. Each dot is a task.",
        fontsize=8.5,
        color="#555555",
    )
    figure.tight_layout(rect=(0, 0.035, 1, 0.99))
    figure.savefig(path, format="png")
