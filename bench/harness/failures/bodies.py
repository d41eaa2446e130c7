"""Starts and ends of bodies, as the application of these experiments writes them down."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["Body", "bodies"]


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
