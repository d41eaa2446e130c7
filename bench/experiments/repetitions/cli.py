"""``python -m bench repetitions``: the same short cells many times over."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from bench.harness.cell_options import cell_options, profile_of, run_and_tell
from bench.harness.cells import grid

__all__ = ["command"]

#: What is repeated: fair sharing on what it is for, and deadlines on what varies most.
CELLS = {"multi_tenant": "tq-wfq", "heavy_tailed": "tq-edf"}
#: Repetitions where neither the command nor the profile asks for more.
MANY = 25


@click.command("repetitions", epilog="Example: python -m bench repetitions --repetitions 25")
@cell_options()
def command(
    profile: str,
    repetitions: int | None,
    out: Path | None,
    as_json: bool,
    save: Path | None,
) -> None:
    """How many repetitions a figure needs: the shift of its median between few and many."""
    chosen = profile_of(profile, repetitions)
    if repetitions is None:
        chosen = dataclasses.replace(chosen, repetitions=max(MANY, chosen.repetitions))
    cells = [cell for workload, arm in CELLS.items() for cell in grid([arm], [workload], chosen)]
    cells.sort(key=lambda cell: cell.repetition)
    run_and_tell("repetitions", cells, chosen, out, as_json, save)
