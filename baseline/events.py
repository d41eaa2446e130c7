"""A record of when bodies start and end, which every pool can keep at the cost of one short write.

``BASELINE_EVENTS`` names a file, one per worker. Threads and forked children append to it: a line
is written by a single ``write`` in append mode, so lines never mix, and none is lost with a process
that is killed. A line is a word, the job, seconds on the system's monotonic clock, which all
processes of a machine share, and the executor (process and thread):
``S 17 1234.567890 4711.140233``.

Words: ``S`` a body has started, ``E`` it has ended, ``K`` its process is about to be killed.
"""

from __future__ import annotations

import os
import threading
import time

__all__ = ["VARIABLE", "note"]

#: Environment variable with the file; without it nothing is recorded.
VARIABLE = "BASELINE_EVENTS"

_file: int | None = None


def _open() -> int | None:
    global _file
    path = os.environ.get(VARIABLE)
    if path is None:
        return None
    # Shared by threads and by children forked later: appending needs no position of one's own.
    _file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    return _file


def note(word: str, job: int) -> None:
    """Append ``word`` for ``job`` with the time at which this was called."""
    now = time.monotonic()
    file = _open() if _file is None else _file
    if file is not None:
        os.write(file, f"{word} {job} {now:.6f} {os.getpid()}.{threading.get_ident()}\n".encode())
