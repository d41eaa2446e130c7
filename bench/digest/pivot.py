"""A table out of lines of figures: which lines, what its rows and columns are. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from bench.harness.errors import BenchError
from tq_celery.setting_checks import did_you_mean

__all__ = ["Pivot", "pivot"]

Record = Mapping[str, str]


class Pivot(NamedTuple):
    """``cells`` are by row and column; None where there is no line."""

    rows: list[str]
    columns: list[str]
    cells: list[list[Record | None]]


def pivot(
    records: Sequence[Record],
    dimensions: Sequence[str],
    rows: str,
    columns: str,
    wanted: Mapping[str, str],
) -> Pivot:
    """Arrange ``records`` by two of their ``dimensions``.

    ``wanted`` has words (or patterns, as ``priority:*``) with commas between them by dimension; in
    their order the rows and columns come, else in that of the records. Of any other dimension only
    one value may be left. BenchError for a word that no record has, and for more than one value.
    """
    for word in (rows, columns, *wanted):
        if word not in dimensions:
            known = ", ".join(dimensions)
            raise BenchError(f"{word!r} is not one of {known}{did_you_mean(word, dimensions)}")
    order: dict[str, list[str]] = {}
    left = list(records)
    for dimension in dimensions:
        present = list(dict.fromkeys(record[dimension] for record in left))
        order[dimension] = _chosen(dimension, present, wanted.get(dimension))
        left = [record for record in left if record[dimension] in order[dimension]]
    for dimension in dimensions:
        values = list(dict.fromkeys(record[dimension] for record in left))
        if dimension not in (rows, columns) and len(values) > 1:
            raise BenchError(f"say which {dimension}: {', '.join(values)}")
    at = {(record[rows], record[columns]): record for record in left}
    down, across = (
        [name for name in order[word] if any(record[word] == name for record in left)]
        for word in (rows, columns)
    )
    return Pivot(down, across, [[at.get((row, column)) for column in across] for row in down])


def _chosen(dimension: str, present: Sequence[str], wanted: str | None) -> list[str]:
    if wanted is None:
        return list(present)
    chosen: list[str] = []
    for pattern in wanted.split(","):
        found = [value for value in present if fnmatchcase(value, pattern)]
        if not found:
            raise BenchError(
                f"no {dimension} {pattern!r} among {', '.join(present) or 'none'}"
                f"{did_you_mean(pattern, present)}"
            )
        chosen += [value for value in found if value not in chosen]
    return chosen
