"""What the tests of stopping look at: events, states, and that nothing is left anywhere."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from tests import leaks
from tests.celery.events import collected
from tests.celery.worker_lab import WorkerLab
from tests.waiting import wait_until

#: What a namespace keeps when it has nothing to do.
KEPT = leaks.KEPT | {
    "leader", "workers", "announcements", "revoked", "holes", "revoked_stamps", "starved",
    "standbys",
}  # fmt: skip


def left(lab: WorkerLab) -> list[str]:
    """Return the keys that hold work, or say anything about it."""
    prefix = lab.keys.prefix.encode()
    names = [key.removeprefix(prefix).decode() for key in lab.client.scan_iter(match=prefix + b"*")]
    return [name for name in names if name not in KEPT and not _empty_stream(lab, name)]


def nothing_left(lab: WorkerLab) -> None:
    """Wait until nothing is left of any task but its record."""

    def found() -> list[str]:
        live = ("submitted", "delayed", "pending", "dispatched")
        return left(lab) + [name for name in lab.counters() if name.startswith(live)]

    wait_until(lambda: not found(), "nothing is left", last=found)


def records(lab: WorkerLab, result: Any) -> list[str]:
    """Return the outcomes of a task: one, or it was settled twice."""
    return [record["outcome"] for record in lab.settled(0) if record["id"] == result.id]


def notes(lab: WorkerLab, result: Any, kind: str = "start") -> list[dict[str, Any]]:
    """Return what a task, or a signal about it, has noted."""
    return [note for note in lab.runs(kind) if note["id"] == result.id]


def events(lab: WorkerLab) -> AbstractContextManager[list[dict[str, Any]]]:
    """Collect the events of workers that run with ``-E``."""
    return collected(lab.app)


def _empty_stream(lab: WorkerLab, name: str) -> bool:
    key = lab.keys.name(name)
    return lab.client.type(key) == b"stream" and not lab.client.xlen(key)
