"""Stock Celery on Redis with priorities, set up as Celery's documentation says.

kombu keeps a list per level and reads them in order, so 0 is the most urgent; one step for each of
the five levels that the workloads use, since every step is one more key in every read.
"""

from __future__ import annotations

from typing import Any

from celery import Celery

from baseline import settings, tasks
from baseline.offer import Work
from baseline.queues import LEVELS

_LEAST_URGENT = LEVELS - 1

app = Celery("baseline", broker=settings.broker("redis://localhost:6379/0"))
app.conf.update(
    settings.COMMON,
    broker_transport_options={
        "priority_steps": list(range(LEVELS)),
        "sep": ":",
        "queue_order_strategy": "priority",
    },
    # A task without a priority is the least urgent, as in the other arms.
    task_default_priority=_LEAST_URGENT,
)
TASKS = tasks.declare(app.task)


def options(work: Work) -> dict[str, Any]:
    """Return the ``apply_async`` options of a task: its priority the other way round."""
    return {"priority": max(_LEAST_URGENT - work.priority, 0)}
