"""Whether the folder of a run is complete: every file of every cell, tables, plots and the page."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.harness.cell import Cell
from bench.harness.errors import BenchError
from bench.harness.results import Manifest

__all__ = ["missing"]

#: Figures that every complete cell has.
MEASURED = ("completed", "latency_p95", "throughput", "utilisation", "makespan", "worker_us")
#: With what a whole file ends.
_PNG, _SVG = b"IEND", b"</svg>"


def missing(folder: Path, plots: Sequence[str]) -> list[str]:
    """Return what is wrong with the folder of a run; ``plots`` are those that it has to have."""
    try:
        cells = Manifest.read(folder).planned()
    except BenchError as error:
        return [error.message]
    found = [*_manifest(folder), *(problem for cell in cells for problem in _cell(folder, cell))]
    found += _tables(folder, cells)
    for name in plots:
        for kind, mark in (("png", _PNG), ("svg", _SVG)):
            path = folder / "plots" / f"{name}.{kind}"
            if not path.exists() or mark not in path.read_bytes():
                found.append(f"no plot {path.name}")
    return [*found, *_page(folder, len(plots))]


def _manifest(folder: Path) -> Iterator[str]:
    manifest = Manifest.read(folder)
    if not manifest.sessions or not all(each.get("environment") for each in manifest.sessions):
        yield "the manifest does not say where it was measured"
    if not manifest.seeds:
        yield "the manifest has no seeds"


def _cell(folder: Path, cell: Cell) -> Iterator[str]:
    raw = folder / "raw"
    try:
        record: dict[str, Any] = json.loads((raw / f"{cell.name}.json").read_text())
        rows = _lines(raw / f"{cell.name}.csv")
    except (OSError, ValueError):
        yield f"{cell.name} is not there whole"
        return
    if record["ending"] != "complete":
        yield f"{cell.name} is {record['ending']}: {record['reason']}"
    if not rows or len(rows) != record["tasks"]:
        yield f"{cell.name} has {len(rows)} rows for {record['tasks']} tasks"
    if lost := sum(row["outcome"] == "missing" for row in rows):
        yield f"{cell.name} lost {lost} tasks"
    if any(not row["ideal_outcome"] for row in rows):
        yield f"{cell.name} has no ideal server beside it"
    letters = folder / "dead_letters" / f"{cell.name}.json"
    if record["dead_letters"] != (len(json.loads(letters.read_text())) if letters.exists() else 0):
        yield f"{cell.name} has {record['dead_letters']} dead letters that are not kept"


def _tables(folder: Path, cells: Sequence[Cell]) -> Iterator[str]:
    names = {(cell.workload, cell.arm, f"{cell.load:g}", cell.exec, str(cell.repetition))
             for cell in cells}  # fmt: skip
    for file in ("aggregate.csv", "tenants.csv", "priorities.csv"):
        try:
            lines = _lines(folder / file)
        except OSError:
            yield f"no {file}"
            continue
        there = {tuple(line[word] for word in ("workload", "arm", "load", "exec", "repetition"))
                 for line in lines}  # fmt: skip
        if there != names:
            yield f"{file} has other cells than the {len(names)} of the run"
        if file == "aggregate.csv":
            for line in lines:
                if empty := [word for word in MEASURED if not line[word]]:
                    what = f"{line['workload']} {line['arm']}"
                    yield f"aggregate.csv has no {', '.join(empty)} of {what}"
    try:
        if not json.loads((folder / "verdicts.json").read_text()):
            yield "verdicts.json is empty"
    except (OSError, ValueError):
        yield "no verdicts.json"


def _page(folder: Path, plots: int) -> Iterator[str]:
    try:
        page = (folder / "report.html").read_text(encoding="utf-8")
    except OSError:
        yield "no report.html"
        return
    if (there := page.count('src="data:image/svg+xml;base64,')) < plots:
        yield f"report.html shows {there} plots of {plots}"
    for outside in ('src="http', "src='http", "@import", "<link", "<script src"):
        if outside in page:
            yield f"report.html needs something from outside: {outside}"
    if "Verdicts" not in page or not page.rstrip().endswith("</html>"):
        yield "report.html is cut short"


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
