"""Measures that every report shares: a percentile, fair shares, and Jain's index. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

__all__ = ["fair_shares", "jain", "percentile"]

Key = TypeVar("Key", str, bytes)


def percentile(values: Sequence[float], q: float) -> float:
    """Return the ``q``-th percentile (0 to 100) by linear interpolation, as numpy's default.

    The value at position ``q / 100 * (n - 1)`` of the ascending values, which R calls type 7.
    Sorting sorted values costs next to nothing, so pass them sorted to ask for several. Raises
    ``ValueError`` for no values or a ``q`` out of range.
    """
    if not values:
        raise ValueError("percentile of no values")
    if not 0 <= q <= 100:
        raise ValueError(f"percentile {q} is not between 0 and 100")
    ordered = sorted(values)
    position = (len(ordered) - 1) * q / 100
    low = math.floor(position)
    high = math.ceil(position)
    if low == high:
        return float(ordered[low])
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def jain(shares: Iterable[float]) -> float:
    """Return Jain's index ``(sum x)^2 / (n * sum x^2)``: 1 is equal, 1/n is all for one of n.

    Who received nothing belongs into ``shares`` as 0. When nobody received anything all are equal:
    1. Of no shares at all the index is nan. R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of
    Fairness and Discrimination for Resource Allocation in Shared Computer Systems", 1984.
    """
    values = list(shares)
    most = max(values, default=math.nan)
    if math.isnan(most) or most == 0:
        return most if math.isnan(most) else 1.0
    # Scaled by the greatest, so that squares of tiny or huge shares stay within a double.
    scaled = [value / most for value in values]
    return sum(scaled) ** 2 / (len(scaled) * sum(value * value for value in scaled))


def fair_shares(
    weights: Mapping[Key, float], wants: Mapping[Key, float | None]
) -> dict[Key, float]:
    """Return each one's max-min fair share of 1: by weight, and what one does not want is others'.

    ``wants`` is the share that somebody asks for, ``None`` for all there is; who is in ``weights``
    and not in ``wants`` wants all there is too. The shares add up to 1 unless everybody is content
    with less. D. Bertsekas, R. Gallager, "Data Networks", 1992, section 6.5.2.
    """

    def per_weight(one: Key) -> float:
        want = wants.get(one)
        return math.inf if want is None else want / weights[one]

    shares: dict[Key, float] = {}
    left, waiting = 1.0, math.fsum(weights.values())
    for one in sorted(weights, key=per_weight):
        level = left / waiting
        shares[one] = weights[one] * min(level, per_weight(one))
        left = max(0.0, left - shares[one])
        waiting = max(waiting - weights[one], weights[one] * 1e-9)
    return shares
