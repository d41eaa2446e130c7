"""A histogram's counts, cheap enough to keep for every task."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

__all__ = ["CALL_BOUNDS", "TASK_BOUNDS", "Buckets"]

#: Upper bounds in seconds of what tasks take and wait.
TASK_BOUNDS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 7_200.0,
)  # fmt: skip
#: Upper bounds in seconds of calls to the server.
CALL_BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0)


class Buckets:
    """Counts of observations by upper bound. Written by one thread at a time; read by any."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float] = TASK_BOUNDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        #: Sum of all observations, seconds.
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Count one observation; a negative one, from clocks that disagree, counts as 0."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        if seconds > 0:
            self.total += seconds

    def add_all(self, seconds: Sequence[float]) -> None:
        """Count many at once, at a third of the price: sorted, they fall into runs."""
        ordered = sorted(seconds)
        counted = 0
        for index, bound in enumerate(self._bounds):
            upto = bisect_right(ordered, bound)
            self._counts[index] += upto - counted
            counted = upto
            if counted == len(ordered):
                break
        else:
            self._counts[-1] += len(ordered) - counted
        negative = bisect_left(ordered, 0.0)
        self.total += sum(ordered[negative:] if negative else ordered)

    def cumulative(self) -> list[tuple[str, int]]:
        """Return each upper bound with the number of observations up to it, ``+Inf`` last."""
        bounds = [*map(str, self._bounds), "+Inf"]
        return list(zip(bounds, accumulate(tuple(self._counts)), strict=True))
