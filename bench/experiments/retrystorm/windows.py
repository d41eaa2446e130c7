"""How many of some moments fall into the fullest window of a given width. Pure."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["fewer", "fullest"]


def fullest(moments: Sequence[float], width: float) -> int:
    """Return the most moments in any half-open window of ``width``, wherever it begins."""
    ordered = sorted(moments)
    most, first = 0, 0
    for last, moment in enumerate(ordered):
        while moment - ordered[first] >= width:
            first += 1
        most = max(most, last - first + 1)
    return most


def fewer(ours: Sequence[int], theirs: Sequence[int]) -> list[float]:
    """Return by what share each of ``ours`` is below its pair; negative when it is above."""
    return [1 - mine / other for mine, other in zip(ours, theirs, strict=True)]
