"""``python -m bench sweep``: offered load from half to three times of what the slots can do."""

from __future__ import annotations

from pathlib import Path

import click

from bench.experiments.matrix.cli import POLICIES, WORKLOADS
from bench.harness.cell_options import Word, cell_options, profile_of, run_and_tell
from bench.harness.cells import grid

__all__ = ["LOADS", "command"]

LOADS = (0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0)


@click.command(
    "sweep", epilog="Example: python -m bench sweep --profile quick --load 0.5 --load 1 --load 2"
)
@click.option("--load", "loads", multiple=True, type=click.FloatRange(0.05, 10), help="Only these.")
@click.option(
    "--workload", "workloads", multiple=True, type=Word(WORKLOADS), default=("heavy_tailed",),
    show_default=True, help="Only these.",
)  # fmt: skip
@cell_options("sweep")
def command(
    loads: tuple[float, ...],
    workloads: tuple[str, ...],
    profile: str,
    repetitions: int | None,
    out: Path | None,
    as_json: bool,
    save: Path | None,
) -> None:
    """Offered load 0.5 to 3.0 x: where the policy matters, edf's misses and its longest waits."""
    chosen = profile_of(profile, repetitions)
    arms = [f"tq-{policy}" for policy in POLICIES]
    cells = grid(arms, workloads, chosen, loads=loads or LOADS)
    run_and_tell("sweep", cells, chosen, out, as_json, save)
