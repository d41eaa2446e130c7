"""Tables of figures and of ratios, by any two of their dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.digest.files import read_csv
from bench.digest.pivot import pivot
from bench.digest.request import Options, Table, beside
from bench.digest.words import UNITS, amount, unit_of, with_spread

__all__ = ["figures", "ratios", "repetitions"]

DIMENSIONS = ("workload", "load", "exec", "arm", "scope", "figure")
#: As unit: the one that the figure usually has.
AUTOMATIC = "auto"

Record = Mapping[str, str]


def figures(data: Path, options: Options) -> Table:
    """Return figures of ``DATA.csv``."""
    return _pivot(read_csv(beside(data, ".csv")), DIMENSIONS, options)


def ratios(data: Path, options: Options) -> Table:
    """Return ratios of ``DATA-ratios.csv``."""
    records = read_csv(beside(data, "-ratios.csv"))
    return _pivot(records, (*DIMENSIONS, "versus"), options, unit="x")


def _pivot(
    records: Sequence[Record], dimensions: Sequence[str], options: Options, unit: str = AUTOMATIC
) -> Table:
    rows, columns = options.take("rows", "arm"), options.take("columns", "workload")
    unit = options.take("unit", unit, (AUTOMATIC, *UNITS))
    ideal = options.take("ideal", "no", ("yes", "no")) == "yes"
    spread = options.take("show", "spread", ("spread", "median")) == "spread"
    wanted = options.take_all(dimensions)
    if "scope" not in (*wanted, rows, columns):
        wanted["scope"] = "all"
    found = pivot(records, dimensions, rows, columns, wanted)
    used = [cell for row in found.cells for cell in row if cell is not None]
    texts = [
        [name, *(_cell(cell, unit, spread, ideal) for cell in row)]
        for name, row in zip(found.rows, found.cells, strict=True)
    ]
    note = repetitions(used, spread)
    return Table(["" if rows == "arm" else rows, *found.columns], texts, note)


def _cell(cell: Record | None, unit: str, spread: bool, ideal: bool) -> str:
    if cell is None:
        return "-"
    unit = unit_of(cell["figure"]) if unit == AUTOMATIC else unit
    median, least, greatest = (float(cell[word]) for word in ("median", "min", "max"))
    text = with_spread(median, least, greatest, unit) if spread else amount(median, unit)
    best = cell.get("ideal") if ideal else None
    return f"{text}; {amount(float(best), unit)}" if best else text


def repetitions(cells: Sequence[Record], spread: bool) -> str:
    """Return what a reader has to know of the number of repetitions."""
    counts = sorted({int(cell["repetitions"]) for cell in cells})
    if not counts:
        return ""
    if counts == [1]:
        return "**One repetition: nothing is known of the spread.**"
    number = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Median of {number} repetitions" + (" (least..greatest)." if spread else ".")
