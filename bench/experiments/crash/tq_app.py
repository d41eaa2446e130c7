"""The task of the crash with ``TQ`` attached."""

from __future__ import annotations

from celery import Celery

from baseline import settings
from bench.experiments.crash.tasks import NAME, hold
from tq_celery import TQ

__all__ = ["TASKS", "app", "tq"]

app = Celery("crash", broker=settings.broker("redis://localhost:6379/0"))
app.conf.update(settings.COMMON)
tq = TQ(app)
TASKS = {"hold": tq.task(name=NAME)(hold)}
