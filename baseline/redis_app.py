"""Stock Celery on Redis: kombu's own transport, a list per queue."""

from __future__ import annotations

from celery import Celery

from baseline import settings, tasks

app = Celery("baseline", broker=settings.broker("redis://localhost:6379/0"))
app.conf.update(settings.COMMON)
TASKS = tasks.declare(app.task)
