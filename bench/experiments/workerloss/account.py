"""What a lost worker cost: pure arithmetic over starts of bodies and the result records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.experiments.soak.account import Run
from bench.harness.failures.records import Dispatch, Key

__all__ = ["Account", "account", "longest_pause"]


@dataclass(frozen=True, slots=True)
class Account:
    """The balance of one trial.

    ``taken`` is how many tasks the fault took from the worker, ``recoveries`` the seconds from the
    fault to the next start of each, in order; ``stranded`` are those of them that never started
    again. ``duplicates`` counts executions beyond the first, ``unexplained`` are tasks that ran
    again although the fault had not taken them.
    """

    tasks: int
    taken: int
    recoveries: Sequence[float]
    stranded: Sequence[str]
    lost: Sequence[str]
    settled_twice: Sequence[Key]
    wrong_outcome: Sequence[tuple[str, str]]
    duplicates: int
    unexplained: Sequence[str]

    @property
    def recovery(self) -> float | None:
        """Seconds until the last of the tasks ran again; None when nothing had to."""
        return max(self.recoveries, default=None)


def account(
    accepted: Mapping[str, str],
    runs: Sequence[Run],
    records: Sequence[Dispatch],
    held: Collection[str],
    victim: str,
    at: float,
    over: float,
) -> Account:
    """Balance one trial.

    ``accepted`` has the outcome to be expected of each id, ``held`` are the tasks that worker
    ``victim`` (the name that its records bear) had when the fault came, which was done from ``at``
    to ``over`` (monotonic seconds). A task whose outcome the worker had sent before is not taken
    from it, though the server may have learnt of it a moment later.
    """
    ended = {each.key[0] for each in records if each.worker == victim and each.attempts == 0}
    taken = set(held) - ended
    starts: dict[str, list[float]] = {}
    for run in runs:
        starts.setdefault(run.key[0], []).append(run.started)
    again = {
        task_id: min(later) - at
        for task_id in taken
        if (later := [start for start in starts.get(task_id, ()) if start > over])
    }
    outcomes: dict[str, str] = {}
    for each in records:
        outcomes.setdefault(each.key[0], each.outcome)
    return Account(
        tasks=len(accepted),
        taken=len(taken),
        recoveries=sorted(again.values()),
        stranded=sorted(taken - again.keys()),
        lost=sorted(accepted.keys() - outcomes.keys()),
        settled_twice=[
            key for key, count in Counter(each.key for each in records).items() if count > 1
        ],
        wrong_outcome=[
            (task_id, outcomes[task_id])
            for task_id, expected in sorted(accepted.items())
            if outcomes.get(task_id, expected) != expected
        ],
        duplicates=sum(len(each) - 1 for each in starts.values()),
        unexplained=sorted(
            task_id for task_id, each in starts.items() if len(each) > 1 and task_id not in taken
        ),
    )


def longest_pause(runs: Iterable[Run], since: float, until: float) -> float:
    """Return the longest time from ``since`` to ``until`` in which no body started, in seconds."""
    times = sorted(run.started for run in runs if since < run.started < until)
    return max(after - before for before, after in pairwise([since, *times, until]))
