"""When a window may be judged, and what wfq has to do better than priority in it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from bench.experiments.fairgate.observe import Observation

__all__ = ["BOUNDS", "Bounds", "Rule", "judge", "refusals"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What makes a window count, and what passes.

    A window counts with ``starts`` tasks started and every tenant ``backlogged`` in this share of
    the samples. The index has to reach ``jain`` and to lie ``above`` the baseline's by this much;
    ``throughput`` is the least share of the baseline's; ``starved`` the most windows of starvation.
    """

    starts: int = 30
    backlogged: float = 0.80
    jain: float = 0.85
    above: float = 0.15
    throughput: float = 0.85
    starved: int = 0


BOUNDS = Bounds()


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: what was measured, what it may be at least (``>=``) or at most (``<=``)."""

    name: str
    measured: float
    sign: str
    bound: float

    @property
    def passed(self) -> bool:
        """Whether the rule holds."""
        if self.sign == ">=":
            return self.measured >= self.bound
        return self.measured <= self.bound


def refusals(seen: Observation, bounds: Bounds = BOUNDS) -> list[str]:
    """Return why the window cannot be judged; empty when it can.

    With few starts the index is chance, and a tenant that asks for little gets little under every
    policy: a difference would say nothing about fairness.
    """
    why = []
    starts = sum(seen.starts.values())
    if starts < bounds.starts:
        why.append(f"{starts} tasks started, at least {bounds.starts} are needed")
    why += [
        f"{tenant} had work waiting in {share:.0%} of the samples, "
        f"at least {bounds.backlogged:.0%} are needed"
        for tenant, share in seen.backlogged.items()
        if share < bounds.backlogged
    ]
    return why


def judge(
    ours: Observation, baseline: Observation, limit: int, bounds: Bounds = BOUNDS
) -> list[Rule]:
    """Return the rules for two windows that count; ``limit`` is the number of slots there are.

    Raises ValueError when the baseline completed nothing.
    """
    if not baseline.rate:
        raise ValueError("the baseline completed nothing")
    return [
        Rule("Jain's index of service / weight", ours.jain, ">=", bounds.jain),
        Rule("above the baseline's index", ours.jain - baseline.jain, ">=", bounds.above),
        Rule("throughput / baseline's", ours.rate / baseline.rate, ">=", bounds.throughput),
        Rule("windows of starvation", sum(ours.starved.values()), "<=", bounds.starved),
        Rule("most tasks at a time", max(ours.peak, baseline.peak), "<=", limit),
    ]
