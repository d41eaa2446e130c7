"""How much time a task is allowed."""

from __future__ import annotations

from dataclasses import dataclass

from tq_celery.errors import SettingsError

__all__ = ["DeadlineRule"]

#: Greatest part of a rule: with the longest run time a scheduler still takes the deadline.
MOST = 10_000.0


@dataclass(frozen=True, slots=True)
class DeadlineRule:
    """A deadline is ``base + factor * run time + u * jitter`` seconds after the submission.

    ``u`` is drawn evenly from 0 to 1. It is met by a task that has *completed* by then.
    """

    base: float = 1.0
    factor: float = 10.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        for name in ("base", "factor", "jitter"):
            value = getattr(self, name)
            if not 0 <= value <= MOST:
                raise SettingsError(f"deadline {name}", value, f"a number from 0 to {MOST:g}")
        if self.base + self.factor == 0:
            raise SettingsError("deadline base", self.base, "more than 0 where the factor is 0")

    def seconds(self, run_time: float, draw: float) -> float:
        """Return the seconds that a task of ``run_time`` seconds is allowed."""
        return self.base + self.factor * run_time + draw * self.jitter
