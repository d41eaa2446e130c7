"""A cell's tasks as CSV: one line each, what happened beside what the ideal server made of it.

Times are rounded to whole microseconds and printed without trailing zeros, so the bytes depend on
the values alone. A task without a line of the ideal server has empty columns there.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import cast

from bench.harness.record import Outcome, Row

__all__ = ["COLUMNS", "decode", "encode", "number"]

_IDEAL = ("submitted", "started", "finished", "executions", "outcome")
COLUMNS = (*Row._fields, *(f"ideal_{name}" for name in _IDEAL))


def number(value: float | int | None) -> str:
    """Return a figure as text: at most six decimals, ``""`` for None, ``nan`` for no number."""
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    text = f"{value:.6f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def encode(rows: Iterable[Row], ideal: Iterable[Row]) -> str:
    """Return the CSV of a cell; ValueError when the ideal server ran a task that is not there."""
    beside = {row.job: row for row in ideal}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        line = [value if isinstance(value, str) else number(value) for value in row]
        other = beside.pop(row.job, None)
        if other is not None:
            line += [
                number(other.submitted), number(other.started), number(other.finished),
                number(other.executions), other.outcome,
            ]  # fmt: skip
        else:
            line += [""] * len(_IDEAL)
        writer.writerow(line)
    if beside:
        raise ValueError(f"the ideal server ran job {min(beside)}, which the cell did not have")
    return out.getvalue()


def decode(text: str) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Return the rows and the ideal server's; ValueError when the text is not such a CSV."""
    reader = csv.reader(io.StringIO(text))
    if tuple(next(reader, ())) != COLUMNS:
        raise ValueError("the columns are not those of a cell")
    rows: list[Row] = []
    ideal: list[Row] = []
    for line in reader:
        row = _row(line[: len(Row._fields)])
        rows.append(row)
        submitted, started, finished, executions, outcome = line[len(Row._fields) :]
        if outcome:
            ideal.append(
                row._replace(
                    submitted=float(submitted), lag=0.0, started=_optional(started),
                    finished=_optional(finished), executions=int(executions),
                    outcome=cast("Outcome", outcome),
                )
            )  # fmt: skip
    return tuple(rows), tuple(ideal)


def _row(line: Sequence[str]) -> Row:
    (job, tenant, priority, cost, seconds, deadline, scheduled, submitted, lag, started, finished,
     executions, outcome) = line  # fmt: skip
    return Row(
        int(job), tenant, int(priority), float(cost), float(seconds), _optional(deadline),
        float(scheduled), float(submitted), float(lag), _optional(started), _optional(finished),
        int(executions), cast("Outcome", outcome),
    )  # fmt: skip


def _optional(text: str) -> float | None:
    return float(text) if text else None
