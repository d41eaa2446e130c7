"""``python -m bench digest``: what the documentation keeps of a run."""

from __future__ import annotations

from pathlib import Path

import click

from bench.digest.files import digest
from bench.harness.errors import BenchError

__all__ = ["DATA", "command"]

#: Where the documentation keeps its data.
DATA = Path("docs/data")


@click.command("digest")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--to", "folder", default=DATA, show_default=True, type=click.Path(path_type=Path),
    help="Folder of the small files.",
)  # fmt: skip
@click.option("--as", "name", help="Their name; by default the experiment's.")
def command(run: Path, folder: Path, name: str | None) -> None:
    """Reduce the folder of a run to small CSVs, for the documentation.

    Example: python -m bench digest results/matrix-full
    """
    if name is not None and (not name or Path(name).name != name):
        raise BenchError(f"--as {name!r}: a name, not a path")
    for path in digest(run, folder, name):
        print(path)
