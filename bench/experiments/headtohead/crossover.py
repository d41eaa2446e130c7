"""Below which duration of a task a scheduler costs throughput. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["COST", "Crossover", "Point", "crossover"]

#: Ratios of throughput below this count as a cost: repetitions of one arm differ by 2 %.
COST = 0.98


class Point(NamedTuple):
    """Our throughput over a rival's with tasks of ``ms`` milliseconds."""

    ms: float
    ratio: float


class Crossover(NamedTuple):
    """``ms`` is None where the ratios cross nowhere; ``says`` puts it in words."""

    ms: float | None
    says: str


def crossover(points: Sequence[Point]) -> Crossover:
    """Return the duration above which the ratio stays at :data:`COST` or more.

    Between two measured durations it is found by a straight line.
    """
    ordered = sorted(points)
    if not ordered:
        return Crossover(None, "not measured")
    costly = [point for point in ordered if point.ratio < COST]
    if not costly:
        return Crossover(None, "none: never below")
    last = costly[-1]
    if last is ordered[-1]:
        return Crossover(None, f"not up to {last.ms:g} ms: still below there")
    after = next(high for low, high in itertools.pairwise(ordered) if low is last)
    share = (COST - last.ratio) / (after.ratio - last.ratio)
    ms = last.ms + share * (after.ms - last.ms)
    return Crossover(ms, f"tasks shorter than {ms:.2g} ms")
