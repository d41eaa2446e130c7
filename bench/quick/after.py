"""What can be done with the folder of a run afterwards: rendered anew, and reduced."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from bench.commands.report import render
from bench.digest.files import digest
from bench.harness.errors import BenchError

__all__ = ["after"]

#: What follows from the raw data alone, and so must come out the same.
DERIVED = ("aggregate.csv", "tenants.csv", "priorities.csv", "verdicts.json", "report.html")


def after(folder: Path, out: Path) -> tuple[list[str], float]:
    """Return what is wrong with making the report and the data anew, and the seconds it took."""
    began = time.monotonic()
    try:
        problems = list(_problems(folder, out))
    except (BenchError, OSError) as error:
        problems = [str(error)]
    return problems, time.monotonic() - began


def _problems(folder: Path, out: Path) -> Iterator[str]:
    before = {name: (folder / name).read_bytes() for name in DERIVED}
    render(folder)
    for name, content in before.items():
        if (folder / name).read_bytes() != content:
            yield f"{name} is another one when made anew"
    for path in digest(folder, out / "data"):
        if not path.stat().st_size:
            yield f"{path.name} is empty"
