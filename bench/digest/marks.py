"""Tables in a page of Markdown, made anew between marks.

A table stands between ``<!-- table: REQUEST -->`` and ``<!-- end -->``, a single figure in a
sentence between ``<!-- value: REQUEST -->`` and ``<!-- end -->``. What a request may be is in
:mod:`bench.digest.tables`; that of a value has to give a table of one cell.
"""

from __future__ import annotations

import re
from pathlib import Path

from bench.digest.tables import make
from bench.digest.words import markdown
from bench.harness.errors import BenchError

__all__ = ["fill"]

_MARK = re.compile(r"<!-- (table|value): ([^>]*?) -->(.*?)<!-- end -->", re.DOTALL)
_ANY = re.compile(r"<!-- (?:table|value):")


def fill(text: str, data: Path) -> str:
    """Return the page with every table and figure made anew; BenchError names the request."""
    whole = _MARK.findall(text)
    if len(whole) != len(_ANY.findall(text)) or any("<!--" in found[2] for found in whole):
        raise BenchError("a mark '<!-- table: ... -->' has no '<!-- end -->' of its own")

    def filled(match: re.Match[str]) -> str:
        kind, request, _ = match.groups()
        try:
            made = _table(request, data) if kind == "table" else _figure(request, data)
        except BenchError as error:
            raise BenchError(f"<!-- {kind}: {request} -->: {error.message}") from error
        return f"<!-- {kind}: {request} -->{made}<!-- end -->"

    return _MARK.sub(filled, text)


def _table(request: str, data: Path) -> str:
    table = make(request, data)
    note = f"\n{table.note}\n" if table.note else ""
    return f"\n{markdown(table.headers, table.rows)}\n{note}"


def _figure(request: str, data: Path) -> str:
    table = make(request, data)
    if len(table.rows) != 1 or len(table.rows[0]) != 2:
        raise BenchError(f"{len(table.rows)} x {len(table.headers) - 1} figures, not one")
    return table.rows[0][1]
