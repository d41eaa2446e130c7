"""What bodies and the producer wrote, read while it grows, and what it says of each task."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bench.harness.record import Row
from tq_celery.workloads.work import Work

__all__ = ["Account", "Event", "Tail"]


class Event(NamedTuple):
    """One line of :mod:`baseline.events` or :mod:`bench.harness.sender`.

    ``at`` is monotonic; ``source`` is the number of the file among those that are read.
    """

    word: str
    job: int
    at: float
    executor: str
    source: int


#: What stands for the words that a line has not.
_LACKING = ("", "0", "0", "")


class Tail:
    """Reads files that other processes append lines to; a line counts once it is whole."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files = [path.open("rb") for path in paths]
        self._rests = [b""] * len(paths)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def read(self) -> Iterator[Event]:
        """Yield what has been added since the last call, file by file."""
        for source, file in enumerate(self._files):
            *lines, self._rests[source] = (self._rests[source] + file.read()).split(b"\n")
            for line in lines:
                words = line.decode().split()
                word, job, at, executor = (*words, *_LACKING[len(words) :])
                yield Event(word, int(job), float(at), executor, source)


@dataclass(slots=True)
class Account:
    """What is known of the tasks of a plan so far; ``start`` is its second 0, monotonic.

    Jobs below zero are the warm-up's: counted in ``executors`` and ``warm`` and nowhere else.
    """

    plan: Sequence[Work]
    start: float = 0.0
    #: When each task was submitted, seconds from ``start``.
    submitted: dict[int, float] = field(default_factory=dict)
    #: Bodies started, by job.
    executions: dict[int, int] = field(default_factory=dict)
    #: Start and end of the first execution that ended, by job; seconds from ``start``.
    completed: dict[int, tuple[float, float]] = field(default_factory=dict)
    #: Slots that have run something: source and executor.
    executors: set[tuple[int, str]] = field(default_factory=set)
    #: Warm-up tasks that have ended.
    warm: int = 0
    all_sent: bool = False
    _running: dict[str, float] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Take in one event."""
        word, job, at, executor, source = event
        if word == "S":
            self._running[executor] = at
            self.executors.add((source, executor))
            if job >= 0:
                self.executions[job] = self.executions.get(job, 0) + 1
        elif word == "E":
            started = self._running.pop(executor)
            if job < 0:
                self.warm += 1
            elif job not in self.completed:
                self.completed[job] = started - self.start, at - self.start
        elif word == "P":
            self.submitted[job] = at - self.start
        elif word == "D":
            self.all_sent = True

    def rows(self, dead: Collection[int] = ()) -> tuple[Row, ...]:
        """Return one row per task of the plan; ``dead`` are the jobs among the dead letters.

        A task that was never submitted has its planned arrival in place of the submission.
        """
        return tuple(self._row(work, work.job in dead) for work in self.plan)

    def _row(self, work: Work, dead: bool) -> Row:
        submitted = self.submitted.get(work.job, work.at)
        started, finished = self.completed.get(work.job, (None, None))
        return Row(
            job=work.job,
            tenant=work.tenant,
            priority=work.priority,
            cost=work.cost,
            seconds=work.seconds,
            deadline=work.deadline,
            scheduled=work.at,
            submitted=round(submitted, 6),
            lag=round(submitted - work.at, 6),
            started=None if started is None else round(started, 6),
            finished=None if finished is None else round(finished, 6),
            executions=self.executions.get(work.job, 0),
            outcome="completed" if finished is not None else "dead" if dead else "missing",
        )
