"""The best prefetch setting of an arm: a few multipliers are tried, and the fastest is kept. Pure.

Stock Celery is sensitive to it, and its default is seldom the best; a comparison against an arm
that was set up badly says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["MARGIN", "Found", "best_prefetch"]

#: A multiplier has to be better than the best lower one by this share: less is noise, and whatever
#: a worker holds in advance is out of the broker's order.
MARGIN = 0.03


@dataclass(frozen=True, slots=True)
class Found:
    """The multiplier that is used, and what each one reached."""

    best: int
    figures: dict[int, float]


def best_prefetch(multipliers: Sequence[int], measure: Callable[[int], float]) -> Found:
    """Return the multiplier with the greatest figure, a higher one only where it is worth it.

    ``measure`` runs the arm with a multiplier; raises ValueError for none to choose from.
    """
    if not multipliers:
        raise ValueError("no multipliers to choose from")
    figures = {multiplier: measure(multiplier) for multiplier in sorted(multipliers)}
    best = min(figures)
    for multiplier, figure in figures.items():
        if figure > figures[best] * (1 + MARGIN):
            best = multiplier
    return Found(best, figures)
