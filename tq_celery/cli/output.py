"""How commands print: text for people, or one JSON document under ``--json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import click

from tq_celery.cli.names import show

__all__ = ["plain", "print_json", "print_table", "table"]


def plain(value: Any) -> Any:
    """Return ``value`` as JSON types; bytes as :func:`~tq_celery.cli.names.show` writes them."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, bytes):
        return show(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    return value


def print_json(value: Any) -> None:
    """Print ``value`` as one JSON document on one line."""
    click.echo(json.dumps(plain(value), ensure_ascii=False))


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows under aligned headings; columns of numbers are set to the right."""
    cells = [[("-" if cell is None else str(cell)) for cell in row] for row in rows]
    widths = [
        max([len(title), *(len(row[index]) for row in cells)]) for index, title in enumerate(head)
    ]
    right = [
        bool(rows)
        and all(row[index] is None or isinstance(row[index], (int, float)) for row in rows)
        for index in range(len(head))
    ]

    def line(row: Sequence[str]) -> str:
        parts = (
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(row, widths, right, strict=True)
        )
        return "  ".join(parts).rstrip()

    return "\n".join(line(row) for row in [[title.upper() for title in head], *cells])


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print :func:`table`."""
    click.echo(table(head, rows))
