"""Reading what workers write, as they write it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tq_celery.replay.nap import SUFFIX

__all__ = ["Event", "Feed"]


class Event(NamedTuple):
    """``kind`` is R (worker ready), S (started) or F (finished); ``at`` is wall clock seconds."""

    kind: str
    job: int
    at: float


class Feed:
    """The events of all workers of one run; :meth:`poll` returns what is new."""

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._offsets: dict[Path, int] = {}

    def poll(self) -> list[Event]:
        """Return events written since the last call, by file; an unfinished line stays unread."""
        events = []
        for path in self._directory.glob(f"*{SUFFIX}"):
            with path.open("rb") as stream:
                stream.seek(self._offsets.get(path, 0))
                new = stream.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._offsets[path] = self._offsets.get(path, 0) + len(whole)
            for line in whole.decode().splitlines():
                kind, job, at = line.split(" ")
                events.append(Event(kind, int(job), float(at)))
        return events
