"""What a command prints: progress on stderr, a table, and one JSON object on the last line."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["emit", "progress", "table"]


def progress(message: str) -> None:
    """Tell the person waiting what is going on, without touching standard output."""
    print(message, file=sys.stderr, flush=True)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return an aligned table: first column to the left, figures to the right."""
    cells = [list(headers), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    lines = []
    for row in cells:
        first, *rest = zip(row, widths, strict=True)
        line = first[0].ljust(first[1])
        lines.append("  ".join([line, *(text.rjust(width) for text, width in rest)]).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def emit(text: str, result: Mapping[str, object], as_json: bool, save: Path | None = None) -> None:
    """Print ``text``; with ``as_json`` the ``result`` follows as the last line.

    ``save`` keeps the same object, raw figures included, in a file.
    """
    print(text, flush=True)
    line = json.dumps(result, sort_keys=True, allow_nan=False)
    if save is not None:
        save.parent.mkdir(parents=True, exist_ok=True)
        save.write_text(line + "\n")
    if as_json:
        print(line, flush=True)
