"""Most urgent first: 255 runs before 0, equal priorities in order of arrival."""

from __future__ import annotations

from dataclasses import dataclass

from tq_celery.policies.contract import Between, Task

__all__ = ["HIGHEST", "STEP", "Priority", "urgency"]

#: The most urgent priority.
HIGHEST = 255
#: Distance of two priorities in a rank: more ms than any arrival has before the year 2286, and
#: ``255 * STEP`` plus an arrival stays below 2**53, so that a Redis score holds it exactly.
STEP = 10**13


def urgency(task: Task) -> float:
    """Return ``(255 - priority) * 10**13 + ms``, so that priority decides and arrival breaks ties.

    Priorities outside 0..255 are refused where tasks are declared; here they count as the nearest
    bound, so that a record from elsewhere cannot produce a rank that wraps.
    """
    priority = min(max(task.priority, 0), HIGHEST)
    return (HIGHEST - priority) * STEP + min(task.ms, STEP - 1)


@dataclass(frozen=True, slots=True)
class Priority:
    """Strict priority over all tenants: sustained urgent work starves the rest, by intent."""

    name: str = "priority"
    between: Between = "rank"

    def rank(self, task: Task) -> float:
        """Return :func:`urgency`."""
        return urgency(task)
