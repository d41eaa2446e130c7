"""When tasks are submitted: a Poisson stream, even or in bursts, in whole microseconds.

The first task is submitted at 0. The gaps are exponential, ``-ln(1 - u) / rate``; each is rounded
to a whole microsecond before it is added, so that no machine's logarithm can move a later task.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["MICROSECONDS", "Arrivals", "Bursts"]

#: Microseconds per second, the grain of every time in a workload.
MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Bursts:
    """``on`` of every ``cycle`` seconds bring ``share`` of the tasks; the mean rate stays."""

    cycle: float = 10.0
    on: float = 0.3
    share: float = 0.9

    def warp(self, seconds: float) -> float:
        """Return when a task comes that an even stream would bring after ``seconds``.

        Piecewise linear: the tasks of ``share`` of a cycle are squeezed into its first part, those
        of the rest are stretched over what is left of it. Whole cycles stay where they are.
        """
        cycles, position = divmod(seconds / self.cycle, 1.0)
        if position < self.share:
            placed = position / self.share * self.on
        else:
            placed = self.on + (position - self.share) / (1 - self.share) * (1 - self.on)
        return (cycles + placed) * self.cycle

    def fitted(self, window: float) -> Bursts:
        """Return the same with a whole number of cycles in ``window`` seconds.

        A window that ends within a burst would have another mean rate.
        """
        return Bursts(window / max(1, round(window / self.cycle)), self.on, self.share)


class Arrivals:
    """Turns one drawn number per task into its time; ``rate`` is tasks per second, or infinite."""

    def __init__(self, rate: float, bursts: Bursts | None = None) -> None:
        self._rate = rate
        self._bursts = bursts
        self._at: int | None = None

    def next(self, draw: float) -> int:
        """Return the time of the next task, in microseconds; the first is at 0."""
        if self._at is None:
            self._at = 0
        else:
            self._at += round(-math.log1p(-draw) / self._rate * MICROSECONDS)
        if self._bursts is None:
            return self._at
        return round(self._bursts.warp(self._at / MICROSECONDS) * MICROSECONDS)
