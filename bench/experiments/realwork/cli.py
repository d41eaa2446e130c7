"""``python -m bench realwork``: sleeping tasks against tasks that use a processor."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import click

from bench.harness.cell import Profile
from bench.harness.cell_options import cell_options, profile_of, run_and_tell
from bench.harness.cells import grid

__all__ = ["command"]

#: What each workload is run for: the isolation of small tenants, and deadlines.
ARMS = {"multi_tenant": ("tq-fifo", "tq-wfq"), "heavy_tailed": ("tq-fifo", "tq-edf")}


def on_processors(profile: Profile) -> Profile:
    """Return the profile with as many slots as there are processors, each a process.

    Threads of one interpreter share a processor, and more slots than processors would share theirs:
    what a task takes then depends on how many run, and the ideal server would be none.
    """
    cores = os.cpu_count() or 1
    return dataclasses.replace(profile, slots=cores, workers=cores, pool="prefork")


@click.command("realwork", epilog="Example: python -m bench realwork --profile full")
@cell_options()
def command(
    profile: str,
    repetitions: int | None,
    out: Path | None,
    as_json: bool,
    save: Path | None,
) -> None:
    """Whether isolation and deadlines hold when tasks compute instead of sleeping."""
    chosen = on_processors(profile_of(profile, repetitions))
    cells = [
        cell
        for workload, arms in ARMS.items()
        for cell in grid(arms, [workload], chosen, execs=("sleep", "cpu"))
    ]
    cells.sort(key=lambda cell: cell.repetition)
    run_and_tell("realwork", cells, chosen, out, as_json, save)
