"""Starts and ends of bodies, as the applications of these experiments write them down.

A line is ``S`` or ``E``, task id, retries, worker's name, and seconds on the system's monotonic
clock, which all processes of a machine share.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Body", "bodies", "write_down"]


class Body(NamedTuple):
    """A start or, when it ``ended``, an end; ``worker`` as the scene names it.

    ``at`` is in seconds on the system's monotonic clock.
    """

    ended: bool
    id: str
    retries: int
    worker: str
    at: float


def bodies(path: Path) -> list[Body]:
    """Return what the file says, in the order in which it was written."""
    found = []
    for line in path.read_text().splitlines():
        word, task_id, retries, worker, at = line.split()
        name = worker.partition("@")[0]
        found.append(Body(word == "E", task_id, int(retries), name, float(at)))
    return found


def write_down(path: str, word: str, request: Any) -> None:
    """Append a line with one ``write``, so that processes never mix theirs."""
    line = f"{word} {request.id} {request.retries} {request.hostname} {time.monotonic():.6f}\n"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)
