"""``python -m bench report RUN``: everything that follows from the raw data, made anew."""

from __future__ import annotations

from pathlib import Path

import click

from bench.harness.results import Results
from bench.harness.verdicts import judge

__all__ = ["command", "render"]


def render(run: Path) -> Path:
    """Write tables, plots, verdicts and the page of ``run`` anew; returns the page's path."""
    with Results.read(run) as results:
        manifest = results.manifest
        return results.finish(judge(manifest.experiment, results.summaries(), manifest.failure))


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path))
def command(run: Path) -> None:
    """Make tables, plots, verdicts and report.html of RUN anew, from its raw data alone.

    Example: python -m bench report results/matrix-quick
    """
    print(render(run))
