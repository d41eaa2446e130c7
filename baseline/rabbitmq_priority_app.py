"""Stock Celery on RabbitMQ with a priority queue, set up as Celery's documentation says.

Five levels, as many as the workloads use: every level costs the broker a queue of its own.
"""

from __future__ import annotations

from typing import Any

from celery import Celery

from baseline import settings, tasks
from baseline.offer import Work
from baseline.queues import LEVELS

_MOST_URGENT = LEVELS - 1

app = Celery("baseline", broker=settings.broker("amqp://guest:guest@localhost:5672//"))
app.conf.update(
    settings.COMMON,
    task_default_delivery_mode="transient",
    task_queue_max_priority=_MOST_URGENT,
    task_default_priority=0,
)
TASKS = tasks.declare(app.task)


def options(work: Work) -> dict[str, Any]:
    """Return the ``apply_async`` options of a task: its priority, higher is more urgent."""
    return {"priority": min(work.priority, _MOST_URGENT)}
