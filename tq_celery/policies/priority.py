"""Most urgent first: 255 runs before 0, equal priorities in order of arrival.

Strictly, unless waiting counts as well. With *ageing* each level of priority is worth that much
waiting::

    rank = arrival + (255 - priority) * ageing

Time adds the same to everybody who waits, so it need not be part of the rank: a task is never
ranked again, and one that came ``n * ageing`` earlier goes before one that is ``n`` levels more
urgent. What arrives more than ``(255 - priority) * ageing`` after a task runs after it, whatever
its priority: that much new work can overtake it, and no more.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tq_celery.policies.contract import Between, Task

__all__ = ["HIGHEST", "LEAST_AGEING", "MOST_AGEING", "STEP", "Priority"]

#: The most urgent priority.
HIGHEST = 255
#: Distance of two strict priorities in a rank: more ms than any arrival has before the year 2286,
#: and ``255 * STEP`` plus an arrival stays below 2**53, so that a Redis score holds it exactly.
STEP = 10**13
#: Seconds of ageing: ranks are whole ms, and two levels stay nearer than strict ones are.
LEAST_AGEING, MOST_AGEING = 0.001, 1e7


@dataclass(frozen=True, slots=True)
class Priority:
    """Priority over all tenants; ``ageing`` is the seconds of waiting one level is worth.

    Without it the order is strict: sustained urgent work starves the rest, by intent.
    """

    ageing: float | None = None
    name: str = field(default="priority", init=False)
    between: Between = field(default="rank", init=False)

    def rank(self, task: Task) -> float:
        """Return ``ms + (255 - priority) * step``; a step is the ageing in whole ms, or 10**13.

        Priorities outside 0..255 are refused where tasks are declared; here they count as the
        nearest bound, so that a record from elsewhere cannot produce a rank that wraps.
        """
        step = STEP if self.ageing is None else round(self.ageing * 1000)
        priority = min(max(task.priority, 0), HIGHEST)
        return (HIGHEST - priority) * step + min(task.ms, STEP - 1)
