"""How much a process logs: lines by kind, and the most of one kind within a second."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

__all__ = ["Volume", "volume"]

#: A little under a second: a line may be written a moment later than it was let through.
WINDOW = 0.95
_STAMP = re.compile(r"^\[?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})[: ]+")
#: What differs from line to line of one kind.
_DETAIL = re.compile(r"[0-9a-f]{8,}|\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Volume:
    """All ``lines``, those of ``tracebacks`` included; ``most`` of one ``kind`` within a second."""

    lines: int
    most: int
    kind: str
    tracebacks: int = 0


def volume(text: str) -> Volume:
    """Read the log of a scheduler or of a worker."""
    kinds: dict[str, list[float]] = {}
    lines = text.splitlines()
    for line in lines:
        found = _STAMP.match(line)
        if found:
            at = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
            kind = _DETAIL.sub("#", line[found.end() :])
            kinds.setdefault(kind, []).append(at.timestamp())
    most, kind = max(((_crowd(times), kind) for kind, times in kinds.items()), default=(0, ""))
    return Volume(len(lines), most, kind, sum(line.startswith("Traceback ") for line in lines))


def _crowd(times: Sequence[float]) -> int:
    """Return the most times within :data:`WINDOW`."""
    ordered, first, most = sorted(times), 0, 0
    for last, at in enumerate(ordered):
        while at - ordered[first] >= WINDOW:
            first += 1
        most = max(most, last - first + 1)
    return most
