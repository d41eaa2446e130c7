"""Earliest deadline first: optimal for one server as long as every deadline can be met."""

from __future__ import annotations

from dataclasses import dataclass

from tq_celery.policies.contract import MAX_RANK, Between, Task

__all__ = ["EarliestDeadline"]


@dataclass(frozen=True, slots=True)
class EarliestDeadline:
    """Rank = absolute deadline in ms; tasks without one come last, in order of arrival."""

    name: str = "edf"
    between: Between = "rank"

    def rank(self, task: Task) -> float:
        """Return the deadline."""
        return min(max(task.deadline, 0), MAX_RANK)
