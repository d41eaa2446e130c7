"""What a run with or without a guard showed, and what it has to show: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["GUARDS", "Guard", "Shown", "faults"]


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard, how it is taken away, and the violation that it prevents.

    ``promise`` is what ``tq verify`` then has to find broken; empty where nothing wrong is written.
    """

    name: str
    removed: str
    violation: str
    promise: str


GUARDS = (
    Guard("fence", "scripts take any epoch", "dispatched under a superseded epoch", "epochs"),
    Guard(
        "trust-window", "a leader believes until it is told", "written after the lease was over", ""
    ),
    Guard("ingress-read", "removed from ingress when it is read", "lost", "one_place"),
    Guard(
        "ingress-later", "removed from ingress by a call of its own", "settled twice",
        "settled_once",
    ),
    Guard(
        "token", "a token counts after its delivery was taken back", "settled twice",
        "settled_once",
    ),
    Guard(
        "ack-later", "recorded, then acknowledged by a call of its own", "settled twice",
        "settled_once",
    ),
    Guard("ack-first", "acknowledged, then recorded by a call of its own", "lost", "one_place"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shown:
    """One run. ``acted`` counts what the guard refused or prevented, where the server counts it."""

    stale: int
    lost: int
    settled_twice: int
    #: Writes that reached the server from a leader whose lease was over.
    late_writes: int
    #: Seconds in which two processes held themselves for the leader, as their metrics tell.
    two_leaders: float
    refused: int
    #: Names of the promises that ``tq verify`` found broken.
    broken: Sequence[str]

    def violations(self, guard: Guard) -> int:
        """Return the number of violations of the kind that ``guard`` prevents."""
        return {
            "fence": self.stale,
            "trust-window": self.late_writes,
            "ingress-read": self.lost,
            "ack-first": self.lost,
        }.get(guard.name, self.settled_twice)

    @property
    def sound(self) -> bool:
        """Whether nothing at all is wrong."""
        return not (
            self.stale or self.lost or self.settled_twice or self.late_writes or self.broken
        )


def faults(guard: Guard, kept: Iterable[Shown], removed: Iterable[Shown]) -> list[str]:
    """Return, in words, what is wrong; empty when the guard is proved."""
    wrong = [f"{guard.name}: with the guard, {each}" for each in kept if not each.sound]
    without = list(removed)
    silent = sum(each.violations(guard) == 0 for each in without)
    if silent:
        wrong.append(f"{guard.name}: {silent} runs without it show no violation")
    unseen = sum(guard.promise not in each.broken for each in without)
    if guard.promise and unseen:
        wrong.append(f"{guard.name}: tq verify did not find {guard.promise} broken {unseen} times")
    return wrong
