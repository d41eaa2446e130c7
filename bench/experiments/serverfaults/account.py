"""What a fault cost: pure arithmetic over calls, result records, executions and samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bench.experiments.serverfaults.loglines import Volume
from bench.experiments.serverfaults.plan import Fault, Plan

__all__ = ["Missing", "Trial", "again", "failures", "missing"]

#: Seconds before the end of a fault from which on a call may have been answered after it.
BLUR = 0.1
#: The most seconds that ``appendfsync everysec`` may lose, with what the disk takes.
TAIL = 1.0 + BLUR


class Missing(NamedTuple):
    """Accepted tasks without an outcome, accepted ``before`` the fault's end or ``after`` it.

    ``unrun`` of the former never ran to their end. ``oldest`` is how many seconds before the
    fault's beginning the first of them had been accepted.
    """

    before: int
    after: int
    unrun: int
    oldest: float


@dataclass(frozen=True, slots=True)
class Trial:
    """What one fault did; times in seconds, ``None`` where something did not go on.

    ``dispatch`` and ``settlement`` are from the end of the fault to the first that is seen, and
    ``standstill`` is the longest time after it without one of either. ``again`` counts executions
    beyond the first. ``settled_during`` are tasks settled while the fault lasted, of
    ``ended_during`` whose bodies ended then.
    """

    fault: str
    dispatch: float | None
    settlement: float | None
    standstill: float
    lasted: float
    accepted: int
    lost: Missing
    settled_twice: int
    again: int
    dispatched_during: int
    settled_during: int
    ended_during: int
    log: Mapping[str, Volume] = field(default_factory=dict)
    #: Share of a core by process while it waited.
    cpu: Mapping[str, float] = field(default_factory=dict)
    #: What ``tq verify`` says is violated, and what it says it could not see.
    violations: Sequence[str] = ()
    unseen: Sequence[str] = ()
    #: What did not come to rest, and processes that ended.
    trouble: Sequence[str] = ()


def missing(
    accepted: Mapping[str, float],
    settled: Iterable[str],
    ended: Iterable[str],
    begin: float,
    end: float,
) -> Missing:
    """Compare the ``accepted`` ids, and when each was, with those that have an outcome.

    ``ended`` are the ids whose bodies ran to their end; the fault lasted from ``begin`` to ``end``.
    """
    known, run = set(settled), set(ended)
    times = {task_id: at for task_id, at in accepted.items() if task_id not in known}
    before = {task_id: at for task_id, at in times.items() if at <= end + BLUR}
    return Missing(
        len(before),
        len(times) - len(before),
        len(before.keys() - run),
        max(0.0, begin - min(before.values())) if before else 0.0,
    )


def again(starts: Iterable[str]) -> int:
    """Return executions beyond the first of each task, from the ids in order of start."""
    counts = Counter(starts)
    return sum(counts.values()) - len(counts)


def failures(trial: Trial, fault: Fault, plan: Plan) -> list[str]:
    """Return the promises that a trial broke, in words."""
    return [
        *trial.trouble,
        *_late(trial, plan),
        *_wrong(trial, fault),
        *_not_meanwhile(trial, fault),
        *_noisy(trial, plan),
        *(f"tq verify: {words}" for words in trial.violations[:1]),
    ]


def _late(trial: Trial, plan: Plan) -> Iterator[str]:
    for what in ("dispatch", "settlement"):
        seconds = getattr(trial, what)
        if seconds is None:
            yield f"{what} did not go on"
        elif seconds > plan.resume:
            yield f"{what} went on after {seconds:.1f} s"
    if trial.standstill > plan.resume:
        yield f"nothing went on for {trial.standstill:.1f} s after the fault"


def _wrong(trial: Trial, fault: Fault) -> Iterator[str]:
    lost = trial.lost
    if lost.before and (not fault.destroys or (fault.destroys == "tail" and lost.oldest > TAIL)):
        yield f"{lost.before} lost, accepted up to {lost.oldest:.1f} s before"
    if lost.after:
        yield f"{lost.after} lost that were accepted afterwards"
    if trial.settled_twice:
        yield f"{trial.settled_twice} settled twice"
    if trial.again and not fault.destroys:
        yield f"{trial.again} started again"


def _not_meanwhile(trial: Trial, fault: Fault) -> Iterator[str]:
    if fault.settles and trial.settled_during < trial.ended_during:
        yield f"{trial.settled_during} of {trial.ended_during} settled meanwhile"
    if fault.settles and trial.dispatched_during:
        yield f"{trial.dispatched_during} dispatched meanwhile"


def _noisy(trial: Trial, plan: Plan) -> Iterator[str]:
    for name, lines in trial.log.items():
        if lines.most > plan.log:
            yield f"{name} logged {lines.most} lines in a second: {lines.kind[:80]}"
        if lines.tracebacks:
            yield f"{name} logged {lines.tracebacks} tracebacks of what is to be expected"
    for name, share in trial.cpu.items():
        if share > plan.cpu:
            yield f"{name} used {share:.0%} of a core while it waited"
