"""The tables of a run: ``aggregate.csv``, ``tenants.csv`` and ``priorities.csv``, made anew."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.harness.results import atomic
from bench.harness.results.rows import number
from bench.harness.summary import CellSummary, Flat

__all__ = ["text", "write"]


def write(folder: Path, summaries: Sequence[CellSummary]) -> None:
    """Write all tables: a line for every cell that is there, ``ending`` says which ones count."""
    atomic.write(folder / "aggregate.csv", text(cell.flat() for cell in summaries))
    tenants = (line for cell in summaries for line in cell.flat_tenants())
    atomic.write(folder / "tenants.csv", text(tenants))
    priorities = (line for cell in summaries for line in cell.flat_priorities())
    atomic.write(folder / "priorities.csv", text(priorities))


def text(lines: Iterable[Flat]) -> str:
    """Return lines of equal columns as CSV; what could not be measured is empty."""
    out = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for line in lines:
        if writer is None:
            writer = csv.DictWriter(out, list(line), lineterminator="\n")
            writer.writeheader()
        writer.writerow({name: _shown(value) for name, value in line.items()})
    return out.getvalue()


def _shown(value: str | float | None) -> str:
    return value if isinstance(value, str) else number(value)
