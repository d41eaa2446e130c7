"""Stock Celery on the celery-redis-plus transport (Python 3.13 and later only)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from celery import Celery

from baseline import settings, tasks
from baseline.offer import Work

# Registers the valkey:// scheme. By name, because only 3.13 environments have the package.
import_module("celery_redis_plus")

app = Celery(
    "baseline",
    broker=settings.broker("redis://localhost:6379/0").replace("redis://", "valkey://", 1),
)
app.conf.update(settings.COMMON)
TASKS = tasks.declare(app.task)


def options(work: Work) -> dict[str, Any]:
    """Return the ``apply_async`` options of a task: its priority, 0 to 255, as in RabbitMQ."""
    return {"priority": work.priority}
