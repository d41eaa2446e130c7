"""How long tasks take: formulae from one drawn number to seconds, and their exact means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["Constant", "Durations", "Even", "Pareto"]


class Durations(Protocol):
    """A distribution of run times in seconds."""

    @property
    def mean(self) -> float:
        """The mean, by formula: what a rate is worked out from."""

    def seconds(self, draw: float) -> float:
        """Return the run time for a number from 0 up to but without 1."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Every task takes ``value`` seconds."""

    value: float

    @property
    def mean(self) -> float:
        """The value."""
        return self.value

    def seconds(self, draw: float) -> float:
        """Return the value."""
        return self.value


@dataclass(frozen=True, slots=True)
class Even:
    """Every run time from ``low`` to ``high`` seconds is as likely as any other."""

    low: float
    high: float

    @property
    def mean(self) -> float:
        """The middle."""
        return (self.low + self.high) / 2

    def seconds(self, draw: float) -> float:
        """Return ``low`` for 0, and ever closer to ``high`` towards 1."""
        return self.low + (self.high - self.low) * draw


@dataclass(frozen=True, slots=True)
class Pareto:
    """Many short run times and a few very long ones: ``P(X > x)`` falls with ``x ** -alpha``.

    Truncated: the distribution of a Pareto variable from ``low`` up, given that it is at most
    ``high`` seconds. ``alpha`` is above 0 and not 1.
    """

    alpha: float
    low: float
    high: float

    @property
    def mean(self) -> float:
        """The mean of the truncated distribution.

        ``alpha / (alpha - 1) * low * (1 - r ** (alpha - 1)) / (1 - r ** alpha)``, r = low / high.
        """
        ratio, alpha = self.low / self.high, self.alpha
        factor: float = (1 - ratio ** (alpha - 1)) / (1 - ratio**alpha)
        return alpha / (alpha - 1) * self.low * factor

    def seconds(self, draw: float) -> float:
        """Return the quantile, the inverse of the distribution function."""
        reached = draw * (1 - (self.low / self.high) ** self.alpha)
        return float(self.low * (1 - reached) ** (-1 / self.alpha))
