"""The task that is replayed, and how it tells what it did.

Each worker process appends lines to a file of its own: ``R`` (the worker takes tasks),
``S job time`` (a task's body starts) and ``F job time`` (it ends), with the wall clock. Writing is
a system call of a few microseconds and does not touch the server that is being measured. Both
arms run exactly this code.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["SUFFIX", "nap", "note"]

#: Files of a run's directory with this ending hold lines of this format.
SUFFIX = ".events"

_open_files: dict[int, int] = {}


def note(line: str) -> None:
    """Append one line to this process's file."""
    pid = os.getpid()
    descriptor = _open_files.get(pid)
    if descriptor is None:
        from tq_celery.replay.arm import Arm

        path = Path(Arm.from_environ().directory) / f"{pid}{SUFFIX}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        _open_files[pid] = descriptor
    os.write(descriptor, (line + "\n").encode())


def nap(job: int, seconds: float, tenant: str, cost: float) -> None:
    """Sleep for ``seconds``; ``tenant`` and ``cost`` are what the scheduler reads."""
    note(f"S {job} {time.time()!r}")
    time.sleep(seconds)
    note(f"F {job} {time.time()!r}")
