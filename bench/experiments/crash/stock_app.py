"""The task on stock Celery and Redis; ``CRASH_VISIBILITY`` is the visibility timeout in seconds."""

from __future__ import annotations

import os

from celery import Celery

from baseline import settings
from bench.experiments.crash.tasks import NAME, hold

__all__ = ["TASKS", "VISIBILITY", "app"]

VISIBILITY = "CRASH_VISIBILITY"

app = Celery("crash", broker=settings.broker("redis://localhost:6379/0"))
app.conf.update(
    settings.COMMON,
    broker_transport_options={
        "visibility_timeout": int(os.environ.get(VISIBILITY, "3600")),
        # What kombu advises for a low timeout: look every second. Its defaults look every 100 s.
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
)
TASKS = {"hold": app.task(name=NAME)(hold)}
