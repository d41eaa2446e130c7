"""No scheduling: tasks go straight to the exec stream. The control group of experiments."""

from __future__ import annotations

from dataclasses import dataclass

from tq_celery.policies.contract import MAX_RANK, Between, Task

__all__ = ["Unscheduled"]


@dataclass(frozen=True, slots=True)
class Unscheduled:
    """Admission hands tasks on at once, whatever the credit; the rank orders returned work only."""

    name: str = "none"
    between: Between = "none"

    def rank(self, task: Task) -> float:
        """Return the arrival."""
        return min(task.ms, MAX_RANK)
