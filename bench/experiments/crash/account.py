"""What became of every task: pure arithmetic over the server's books and the workers' records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.harness.events import Event

__all__ = ["Account", "account"]


@dataclass(frozen=True, slots=True)
class Account:
    """The balance of one crash.

    ``executions`` says how many tasks were started so often. ``again`` are those that ran once
    more although their settlement had arrived before the crash. ``unrecorded`` are those that the
    server calls settled although no body ever ended.
    """

    tasks: int
    lost: Sequence[int]
    settled_twice: Sequence[int]
    again: Sequence[int]
    unrecorded: Sequence[int]
    executions: Mapping[int, int]

    @property
    def passed(self) -> bool:
        """Whether nothing was lost, settled twice, run after it was settled, or invented."""
        return not (self.lost or self.settled_twice or self.again or self.unrecorded)


def account(
    tasks: int, settlements: Mapping[int, int], before: Collection[int], events: Iterable[Event]
) -> Account:
    """Balance jobs 0 to ``tasks`` - 1.

    ``settlements`` counts those of each job in the server's books, ``before`` are the jobs among
    them that were settled when the first worker (source 0 of ``events``) was killed.
    """
    starts: Counter[int] = Counter()
    ended: set[int] = set()
    again: set[int] = set()
    for event in events:
        if event.word == "S":
            starts[event.job] += 1
            if event.source > 0 and event.job in before:
                again.add(event.job)
        elif event.word == "E":
            ended.add(event.job)
    jobs = range(tasks)
    return Account(
        tasks=tasks,
        lost=[job for job in jobs if not settlements.get(job)],
        settled_twice=[job for job in jobs if settlements.get(job, 0) > 1],
        again=sorted(again),
        unrecorded=[job for job in jobs if settlements.get(job) and job not in ended],
        executions=dict(sorted(Counter(starts[job] for job in jobs).items())),
    )
