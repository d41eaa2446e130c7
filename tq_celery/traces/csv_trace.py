"""Comma-separated traces with a header line; the caller names the columns.

A row needs a time and either a run time or one or more cost columns, which are added up
(``ContextTokens`` + ``GeneratedTokens``). With costs alone, the run time is cost times
``seconds_per_cost``.
"""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tq_celery.errors import TraceError
from tq_celery.traces.job import Job, Skips
from tq_celery.traces.lines import number, numbered_lines
from tq_celery.traces.swf import no_jobs

__all__ = ["CsvColumns", "read_csv"]

#: Longest tenant name accepted, in bytes of UTF-8; the library's own limit.
MAX_TENANT = 256


@dataclass(frozen=True, slots=True)
class CsvColumns:
    """Which column means what, by name.

    ``time`` holds numbers of ``time_unit`` seconds each or ISO 8601 time stamps (a stamp without
    a zone is UTC); ``duration`` numbers of ``duration_unit`` seconds each. Without ``tenant``
    every job belongs to ``default``.
    """

    time: str
    duration: str | None = None
    cost: tuple[str, ...] = ()
    tenant: str | None = None
    time_unit: float = 1.0
    duration_unit: float = 1.0
    seconds_per_cost: float = 1.0


@dataclass(frozen=True, slots=True)
class _Indices:
    width: int
    time: int
    duration: int | None
    cost: tuple[int, ...]
    tenant: int | None


def read_csv(path: str | Path, columns: CsvColumns, skips: Skips | None = None) -> Iterator[Job]:
    """Yield the jobs of ``path`` in file order, submit times from the first usable row.

    Rows that are no job are counted in ``skips``. Raises TraceError when the file is broken, a
    named column is not in the header, or no row is usable.
    """
    if columns.duration is None and not columns.cost:
        raise TraceError(str(path), 0, "name a duration column or a cost column")
    skips = Skips(str(path)) if skips is None else skips
    rows = csv.reader(text + "\n" for _, text in numbered_lines(path))
    header = next(rows, None)
    if header is None:
        raise TraceError(str(path), 0, "the file is empty")
    indices = _locate(str(path), header, columns)
    base: float | None = None
    latest = 0.0
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            skips.add(rows.line_num, "malformed", str(error))
            continue
        if row is None:
            break
        if not row:
            continue
        parsed = _parse(rows.line_num, row, indices, columns, skips)
        if parsed is None:
            continue
        base = parsed.submit if base is None else base
        if parsed.submit - base < latest:
            skips.add(rows.line_num, "out of order", "submitted before the row above it")
            continue
        latest = parsed.submit - base
        yield parsed._replace(submit=latest)
    if base is None:
        raise no_jobs(str(path), rows.line_num, skips)


def _locate(path: str, header: list[str], columns: CsvColumns) -> _Indices:
    names = [name.strip().lstrip("\ufeff") for name in header]

    def index(name: str) -> int:
        found = names.count(name)
        if found == 1:
            return names.index(name)
        if found:
            raise TraceError(path, 1, f"column {name!r} appears {found} times in the header")
        close = difflib.get_close_matches(name, names, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise TraceError(path, 1, f"no column {name!r}{hint} (columns: {', '.join(names)[:400]})")

    return _Indices(
        len(names),
        index(columns.time),
        None if columns.duration is None else index(columns.duration),
        tuple(index(name) for name in columns.cost),
        None if columns.tenant is None else index(columns.tenant),
    )


def _parse(
    line: int, row: list[str], at: _Indices, columns: CsvColumns, skips: Skips
) -> Job | None:
    if len(row) != at.width:
        skips.add(line, "malformed", f"{len(row)} fields instead of {at.width}")
        return None
    if at.duration is not None and not row[at.duration].strip():
        skips.add(line, "run time unknown", "the field is empty")
        return None
    try:
        submit = _instant(row[at.time].strip(), columns.time_unit)
        cost = sum(number(row[i]) for i in at.cost) if at.cost else None
        if at.duration is not None:
            duration = number(row[at.duration]) * columns.duration_unit
        else:
            duration = (cost or 0.0) * columns.seconds_per_cost
    except ValueError as error:
        skips.add(line, "malformed", str(error))
        return None
    if duration < 0 or (cost is not None and cost < 0):
        unknown = at.duration is not None and row[at.duration].strip() == "-1"
        skips.add(line, "run time unknown" if unknown else "negative run time or cost")
        return None
    tenant = "default" if at.tenant is None else row[at.tenant].strip() or "default"
    if len(tenant.encode()) > MAX_TENANT:
        skips.add(line, "malformed", f"tenant is longer than {MAX_TENANT} bytes")
        return None
    return Job(submit, duration, tenant, duration if cost is None else cost)


def _instant(text: str, unit: float) -> float:
    try:
        return number(text) * unit
    except ValueError:
        pass
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is neither a number nor an ISO 8601 time") from None
    if stamp.tzinfo is None:
        stamp = stamp.replace(tzinfo=UTC)
    return stamp.timestamp()
