"""What a partition did: pure arithmetic over the server's stamps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from bench.experiments.partition.arms import Arm, Plan

__all__ = ["Account", "PHASES", "Shares", "Window", "again", "faults", "longest_gap", "shares"]

#: Before the cut, while it lasted, and afterwards.
PHASES = ("before", "during", "after")


class Window(NamedTuple):
    """When the cut began and when it was healed, ms of the server's clock."""

    cut: int
    healed: int

    def phase(self, at: float) -> str:
        """Return the phase of a moment."""
        return PHASES[(at > self.cut) + (at > self.healed)]


class Shares(NamedTuple):
    """How many of something came from the side that was cut off, and from the other one."""

    cut_off: int = 0
    other: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """What one trial came to. ``resumed`` in seconds; see :meth:`.arms.Arm.promised`."""

    seconds: float
    accepted: int
    resumed: float
    dispatched: Mapping[str, Shares]
    settled: Mapping[str, Shares]
    #: Grants of leadership after the cut.
    grants: int
    #: Leader's writes that the fence refused; settlements under a token that was not current, among
    #: them repeats of what had been settled although the answer was lost.
    writes_refused: int
    settlements_refused: int
    #: Tasks that the worker which was cut off ran at that moment.
    held: int
    #: Bodies that were started more than once, and those of them that were not ``held``.
    again: int
    unexplained: Sequence[str]
    stale: int
    lost: Sequence[str]
    settled_twice: Sequence[str]
    left: Mapping[str, int]
    #: What ``tq verify`` found.
    violations: Sequence[str]


def shares(moments: Iterable[tuple[float, bool]], window: Window) -> dict[str, Shares]:
    """Count (ms, whether it was the side that was cut off) by phase."""
    counted = Counter((window.phase(at), bool(cut_off)) for at, cut_off in moments)
    return {phase: Shares(counted[phase, True], counted[phase, False]) for phase in PHASES}


def longest_gap(moments: Sequence[int], window: Window) -> float:
    """Return the most seconds without one of ``moments`` (ms) that overlap the cut.

    A gap that lasts beyond the last moment has no end: infinite.
    """
    times = sorted(moments)
    if not times or times[-1] <= window.healed or times[0] > window.cut:
        return float("inf")
    pairs = pairwise(times)
    return max(
        after - before for before, after in pairs if after > window.cut and before <= window.healed
    ) / 1000  # fmt: skip


def again(starts: Iterable[str]) -> list[str]:
    """Return the ids that were started more than once."""
    return sorted(task_id for task_id, count in Counter(starts).items() if count > 1)


def faults(arm: Arm, plan: Plan, found: Account) -> list[str]:
    """Return, in words, what broke the pass rule; empty when the trial passed."""
    broken = [
        f"{count} {words}"
        for count, words in (
            (found.stale, "dispatches under a superseded epoch"),
            (len(found.lost), "lost"),
            (len(found.settled_twice), "settled twice"),
            (len(found.unexplained), "started again without a cause"),
            (sum(found.left.values()), "left over"),
            (len(found.violations), "promises broken, the first: " + "".join(found.violations[:1])),
        )
        if count
    ]
    limit = arm.promised(plan)
    if found.resumed > limit:
        broken.append(f"work went on after {found.resumed:.2f} s, not within {limit:.2f} s")
    if arm.side == "leader":
        # a short one ends before anybody misses the leader; a long one costs it the lease, once
        if found.grants != int(arm.long):
            broken.append(f"{found.grants} grants of leadership instead of {int(arm.long)}")
        if arm.long and found.dispatched["during"].other == 0:
            broken.append("the standby dispatched nothing during the cut")
    else:
        if not found.held:
            broken.append("the worker ran nothing when it was cut off")
        if found.grants:
            broken.append(f"{found.grants} grants of leadership although the leader was well")
        if not arm.long and found.again:
            broken.append(f"{found.again} run again although the lease held")
    return broken
