"""What a page asks for, and what it gets. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from bench.harness.errors import BenchError
from tq_celery.setting_checks import did_you_mean

__all__ = ["Options", "Table", "beside", "parse"]


class Table(NamedTuple):
    """Headers, rows of texts, and a line for below the table ("" for none)."""

    headers: list[str]
    rows: list[list[str]]
    note: str = ""


class Options:
    """The options of one request; what nobody has taken at the end is a mistake."""

    def __init__(self, given: dict[str, str]) -> None:
        self._left = dict(given)

    def take(self, name: str, default: str, known: Iterable[str] | None = None) -> str:
        """Return an option; BenchError when it is none of the ``known`` words."""
        value = self._left.pop(name, default)
        if known is not None and value not in (words := list(known)):
            raise BenchError(
                f"{name}={value} is not one of {', '.join(words)}{did_you_mean(value, words)}"
            )
        return value

    def take_all(self, names: Iterable[str]) -> dict[str, str]:
        """Return those of ``names`` that are given."""
        return {name: self._left.pop(name) for name in names if name in self._left}

    def end(self) -> None:
        """Raise BenchError for an option that is left."""
        for name in self._left:
            raise BenchError(f"{name}= is no option of this table")


def parse(request: str) -> tuple[str, str, Options]:
    """Return kind, name of the data, and options of ``KIND DATA NAME=VALUE ...``."""
    try:
        kind, source, *rest = shlex.split(request)
        given = dict(word.split("=", 1) for word in rest)
    except ValueError:
        raise BenchError(f"{request!r} is not KIND DATA NAME=VALUE ...") from None
    return kind, source, Options(given)


def beside(data: Path, ending: str) -> Path:
    """Return one of the files of ``data``."""
    return data.with_name(data.name + ending)
