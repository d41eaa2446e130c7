"""First come, first served: the order of arrival at the store, whoever the tenant is."""

from __future__ import annotations

from dataclasses import dataclass

from tq_celery.policies.contract import MAX_RANK, Between, Task

__all__ = ["Fifo"]


@dataclass(frozen=True, slots=True)
class Fifo:
    """Rank = arrival in ms; tasks of one millisecond keep the order of their ingress entries."""

    name: str = "fifo"
    between: Between = "rank"

    def rank(self, task: Task) -> float:
        """Return the arrival."""
        return min(task.ms, MAX_RANK)
