"""What a scheduler process has done and how fresh it is: plain numbers for metrics and tests.

Each number is written by one thread only, so plain additions are exact.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

__all__ = ["LoopStats", "SchedulerStats"]


@dataclass(slots=True)
class LoopStats:
    """One loop: ``last_success`` is on the monotonic clock, 0 before the first success."""

    rounds: int = 0
    failures: int = 0
    consecutive_failures: int = 0
    #: Writes that the fence refused.
    fenced: int = 0
    last_success: float = 0.0
    last_error: str = ""

    def succeeded(self) -> None:
        """Note a round that did not raise."""
        self.rounds += 1
        self.consecutive_failures = 0
        self.last_success = time.monotonic()

    def reached(self) -> None:
        """Note that the store has answered in the middle of a long round."""
        self.last_success = time.monotonic()

    def failed(self, error: Exception) -> int:
        """Note a round that raised; return how many did in a row."""
        self.rounds += 1
        self.failures += 1
        self.consecutive_failures += 1
        self.last_error = f"{type(error).__name__}: {error}"
        return self.consecutive_failures

    @property
    def age(self) -> float:
        """Seconds since the last success; infinite before the first."""
        return time.monotonic() - self.last_success if self.last_success else float("inf")


@dataclass(slots=True)
class SchedulerStats:
    """Counters since the process started, and one :class:`LoopStats` per loop."""

    admitted: int = 0
    buried: int = 0
    buried_delayed: int = 0
    promoted: int = 0
    dispatched: int = 0
    dispatch_calls: int = 0
    reranked: int = 0
    reclaimed: int = 0
    orphans: int = 0
    terms: int = 0
    depositions: int = 0
    epoch: int = 0
    loops: dict[str, LoopStats] = field(default_factory=dict)

    def loop(self, name: str) -> LoopStats:
        """Return the statistics of the loop called ``name``, made on first use."""
        return self.loops.setdefault(name, LoopStats())
