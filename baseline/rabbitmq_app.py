"""Stock Celery on RabbitMQ: py-amqp, a classic queue.

Messages are transient, because the Redis of the other arms persists nothing either.
"""

from __future__ import annotations

from typing import Any

from celery import Celery

from baseline import settings, tasks
from baseline.offer import Work

app = Celery("baseline", broker=settings.broker("amqp://guest:guest@localhost:5672//"))
app.conf.update(settings.COMMON, task_default_delivery_mode="transient")
TASKS = tasks.declare(app.task)


def options(work: Work) -> dict[str, Any]:
    """Return the ``apply_async`` options of a task: none, first come, first served."""
    return {}
