"""How much later tasks started than on a server without overhead. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bench.harness.ideal import ideal
from tq_celery.workloads.work import Work

__all__ = ["Timing", "added"]


class Timing(NamedTuple):
    """One task's monotonic seconds: just before ``delay()``, first and last line of its body."""

    submitted: float
    started: float
    finished: float


def added(timings: Sequence[Timing], slots: int) -> list[float]:
    """Return for each task, in order of submission, how much later it started than ideally.

    Ideally the tasks run in order of submission on ``slots`` slots (:mod:`bench.harness.ideal`);
    submission times and durations are those measured. What is left is overhead of sending,
    queueing, scheduling and starting. A task that overtook another can be below zero.
    """
    tasks = sorted(timings)
    origin = tasks[0].submitted if tasks else 0.0
    works = [
        Work(job, task.submitted - origin, task.finished - task.started, "", 1.0)
        for job, task in enumerate(tasks)
    ]
    return [
        task.started - origin - float(row.started or 0.0)
        for task, row in zip(tasks, ideal(works, "fifo", slots), strict=True)
    ]
