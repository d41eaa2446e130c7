"""A run whose process kills itself: ``killed_writer.py FOLDER FILE MOMENT``.

Adds one cell, then a second one; while that one's FILE (``csv``, ``json`` or ``letters``) is
written, the process ends by SIGKILL: with half of the content out (``half``), before the file gets
its name (``unnamed``) or right after (``named``).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from bench.harness.results import Results, atomic
from tests.unit.bench.lab_runs import ENVIRONMENT, PROFILE, cells, run_of

ENDINGS = {"csv": "raw/*.csv", "json": "raw/*.json", "letters": "dead_letters/*.json"}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder: Path, file: str, moment: str) -> None:
    planned = cells()
    with Results.open(folder, "matrix", PROFILE, planned, ENVIRONMENT) as results:
        results.add(run_of(planned[0]))
        whole = atomic.write

        def write(path: Path, content: str | bytes) -> None:
            if not path.match(ENDINGS[file]):
                whole(path, content)
                return
            data = content.encode() if isinstance(content, str) else content
            if moment == "half":
                path.with_name(path.name + atomic.PARTIAL).write_bytes(data[: len(data) // 2])
            elif moment == "unnamed":
                path.with_name(path.name + atomic.PARTIAL).write_bytes(data)
            else:
                whole(path, content)
            die()

        atomic.write = write
        results.add(run_of(planned[1], dead_letters=({"id": "x"},)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
