"""``python -m bench merge OUT RUN RUN...``: runs of one configuration as one."""

from __future__ import annotations

from pathlib import Path

import click

from bench.commands.report import render
from bench.harness.results import merge

__all__ = ["command"]


@click.command("merge")
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
def command(out: Path, runs: tuple[Path, ...]) -> None:
    """Put the cells of several RUNS into the new folder OUT, and make its report.

    The runs need the same experiment, profile and settings, and different cells. The manifest keeps
    which cell came from where.

    Example: python -m bench merge results/both results/monday results/tuesday
    """
    merge(out, runs)
    print(render(out))
