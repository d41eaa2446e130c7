"""The server without overhead: what a task's wait would have been, computed. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Timing", "added"]


class Timing(NamedTuple):
    """One task's monotonic seconds: just before ``delay()``, first and last line of its body."""

    submitted: float
    started: float
    finished: float


def added(timings: Sequence[Timing], slots: int) -> list[float]:
    """Return for each task, in order of submission, how much later it started than ideally.

    Ideally a task starts at once when one of ``slots`` is free, otherwise when the first of them
    becomes free; submission times and durations are those measured. What is left is overhead of
    sending, queueing, scheduling and starting. A task that overtook another can be below zero.
    """
    free = [float("-inf")] * slots
    heapq.heapify(free)
    late: list[float] = []
    for task in sorted(timings):
        ideal = max(task.submitted, heapq.heappop(free))
        heapq.heappush(free, ideal + task.finished - task.started)
        late.append(task.started - ideal)
    return late
