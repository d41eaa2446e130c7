"""``python -m bench tables``: the tables of a page, made of what ``digest`` kept."""

from __future__ import annotations

from pathlib import Path

import click

from bench.commands.digest import DATA
from bench.digest.marks import fill
from bench.harness.errors import BenchError
from bench.harness.results.atomic import write

__all__ = ["command"]

REPORT = Path("docs/report.md")


@click.command("tables")
@click.argument("pages", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--data", default=DATA, show_default=True, type=click.Path(path_type=Path),
    help="Folder of the small files.",
)  # fmt: skip
@click.option("--check", is_flag=True, help="Change nothing; an error for a page out of date.")
def command(pages: tuple[Path, ...], data: Path, check: bool) -> None:
    """Make the tables of docs/report.md (or PAGES) anew from the data, between their marks.

    Example: python -m bench tables --check
    """
    for page in pages or (REPORT,):
        try:
            text = page.read_text(encoding="utf-8")
        except OSError as error:
            raise BenchError(f"{page} cannot be read: {error.strerror}") from error
        try:
            made = fill(text, data)
        except BenchError as error:
            raise BenchError(f"{page}: {error.message}") from error
        if made == text:
            print(f"{page}: up to date")
        elif check:
            raise BenchError(f"{page} is not what its data says: run python -m bench tables {page}")
        else:
            write(page, made)
            print(f"{page}: written")
