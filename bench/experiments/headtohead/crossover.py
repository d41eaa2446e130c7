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
    """``ms``: from where on nothing is given up, None without a crossing. ``says``: where it is."""

    ms: float | None
    says: str


def crossover(points: Sequence[Point]) -> Crossover:
    """Return for which durations the ratio is below :data:`COST`.

    Between two measured durations the edge is found by a straight line.
    """
    ordered = sorted(points)
    if not ordered:
        return Crossover(None, "not measured")
    stretches = []
    for costly, group in itertools.groupby(
        range(len(ordered)), key=lambda place: ordered[place].ratio < COST
    ):
        places = list(group)
        if costly:
            stretches.append((_edge(ordered, places[0] - 1), _edge(ordered, places[-1])))
    if not stretches:
        return Crossover(None, "nowhere")
    return Crossover(stretches[-1][1], ", ".join(_said(*each) for each in stretches))


def _edge(points: Sequence[Point], place: int) -> float | None:
    """Return where the ratio is :data:`COST` behind a point; None where nothing follows it."""
    if not 0 <= place < len(points) - 1:
        return None
    low, high = points[place : place + 2]
    return low.ms + (high.ms - low.ms) * (COST - low.ratio) / (high.ratio - low.ratio)


def _said(begin: float | None, end: float | None) -> str:
    if begin is None:
        return "everywhere" if end is None else f"below {end:.2g} ms"
    return f"from {begin:.2g} ms on" if end is None else f"{begin:.2g} to {end:.2g} ms"
