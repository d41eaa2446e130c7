"""A run whose process kills itself: ``killed_writer.py FOLDER NUMBER MOMENT``.

Adds one cell, then a second one; while the file NUMBER (from 1) of that one is written, the process
ends by SIGKILL: with half of the content out (``half``), before the file gets its name
(``unnamed``) or right after (``named``).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from bench.harness.results import Results
from tests.unit.bench.lab_runs import ENVIRONMENT, PROFILE, cells, run_of


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Half:
    """A file of which only the first half is ever written."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> Half:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        self._file.write(data[: len(data) // 2])
        self._file.flush()
        die()


def kill_at(number: int, moment: str) -> None:
    """Let the process end when the file ``number``, counted from now, gets to ``moment``."""
    opened = Path.open
    replaced = Path.replace
    count = 0

    def open_(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        nonlocal count
        file = opened(path, mode, *args, **options)
        if "w" not in mode:
            return file
        count += 1
        return Half(file) if (count, moment) == (number, "half") else file

    def replace(path: Path, target: Path) -> Path:
        if (count, moment) == (number, "unnamed"):
            die()
        named = replaced(path, target)
        if (count, moment) == (number, "named"):
            die()
        return named

    Path.open, Path.replace = open_, replace  # type: ignore[method-assign, assignment]


def main(folder: Path, number: int, moment: str) -> None:
    planned = cells()
    with Results.open(folder, "matrix", PROFILE, planned, ENVIRONMENT) as results:
        results.add(run_of(planned[0]))
        kill_at(number, moment)
        results.add(run_of(planned[1], dead_letters=({"id": "x"},)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
