"""``python -m bench control``: fifo against no scheduling at all."""

from __future__ import annotations

from pathlib import Path

import click

from bench.experiments.matrix.cli import WORKLOADS
from bench.harness.cell_options import Word, cell_options, profile_of, run_and_tell
from bench.harness.cells import grid

__all__ = ["command"]

ARMS = ("tq-none", "tq-fifo")


@click.command("control", epilog="Example: python -m bench control --repetitions 40")
@click.option(
    "--workload", "workloads", multiple=True, type=Word(WORKLOADS), default=("uniform",),
    show_default=True, help="Only these.",
)  # fmt: skip
@cell_options("control")
def command(
    workloads: tuple[str, ...],
    profile: str,
    repetitions: int | None,
    out: Path | None,
    as_json: bool,
    save: Path | None,
) -> None:
    """What centralisation costs: the policy none (straight to the workers) against fifo."""
    chosen = profile_of(profile, repetitions)
    run_and_tell("control", grid(ARMS, workloads, chosen), chosen, out, as_json, save)
