"""Stock Celery on Redis: kombu's own transport, a list per queue."""

from __future__ import annotations

from typing import Any

from celery import Celery

from baseline import settings, tasks
from baseline.offer import Work

app = Celery("baseline", broker=settings.broker("redis://localhost:6379/0"))
app.conf.update(settings.COMMON)
TASKS = tasks.declare(app.task)


def options(work: Work) -> dict[str, Any]:
    """Return the ``apply_async`` options of a task: none, first come, first served."""
    return {}
