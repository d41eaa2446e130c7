"""``python -m bench matrix``: four policies under four workloads."""

from __future__ import annotations

from pathlib import Path

import click

from bench.harness.cell_options import Word, cell_options, profile_of, run_and_tell
from bench.harness.cells import grid

__all__ = ["POLICIES", "WORKLOADS", "command"]

POLICIES = ("fifo", "priority", "edf", "wfq")
WORKLOADS = ("uniform", "bursty", "heavy_tailed", "multi_tenant")


@click.command("matrix", epilog="Example: python -m bench matrix --profile full")
@click.option("--policy", "policies", multiple=True, type=Word(POLICIES), help="Only these.")
@click.option("--workload", "workloads", multiple=True, type=Word(WORKLOADS), help="Only these.")
@cell_options()
def command(
    policies: tuple[str, ...],
    workloads: tuple[str, ...],
    profile: str,
    repetitions: int | None,
    out: Path | None,
    as_json: bool,
    save: Path | None,
) -> None:
    """Four policies under four workloads: latency, deadlines, fairness, throughput."""
    chosen = profile_of(profile, repetitions)
    arms = [f"tq-{policy}" for policy in policies or POLICIES]
    cells = grid(arms, workloads or WORKLOADS, chosen)
    run_and_tell("matrix", cells, chosen, out, as_json, save)
