"""What ``celery -A tests.celery.hooks_main worker`` runs: an application with hooks of its own.

Signals, a step of its own in the worker's blueprint, an abortable task, and annotations. Everything
is noted in the Redis list ``hooks``.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import redis
from celery import bootsteps, signals
from celery.contrib.abortable import AbortableTask
from celery.exceptions import Reject

from tests.celery.retry_tasks import RETRY_AFTER
from tests.celery.worker_tasks import RUNS, build

#: The signals about a task that a worker sends.
SIGNALS = (
    "task_received", "task_prerun", "task_postrun", "task_success", "task_failure", "task_retry",
    "task_revoked", "task_rejected", "task_unknown", "task_internal_error",
)  # fmt: skip


def note(kind: str, **fields: Any) -> None:
    with redis.Redis.from_url(os.environ[RUNS], protocol=2) as client:
        client.rpush("hooks", json.dumps({"kind": kind, **fields}))


def listen(name: str) -> Any:
    def heard(sender: Any = None, **kwargs: Any) -> None:
        request = kwargs.get("request") or getattr(sender, "request", None)
        task_id = kwargs.get("task_id") or kwargs.get("id") or getattr(request, "id", None)
        note(name, id=task_id, fields=sorted(set(kwargs) - {"signal"}))

    return heard


class Step(bootsteps.StartStopStep):
    requires = ("celery.worker.components:Pool",)

    def start(self, parent: Any) -> None:
        note("step")


def add(app: Any) -> None:
    """Give ``app`` the tasks of the worker under test."""
    tq = app.tq

    def hooked(self: Any, how: str) -> Any:
        if how == "fail":
            raise KeyError(how)
        if how == "reject":
            raise Reject(how, requeue=False)
        if how == "retry" and not self.request.retries:
            raise self.retry(countdown=RETRY_AFTER)
        return [self.description, self.time_limit]

    options: dict[str, Any] = {"shared": False, "bind": True, "max_retries": 1}
    tq.task(hooked, name="scheduled", **options)
    app.task(hooked, name="ordinary", **options)

    @tq.task(shared=False, name="abortable", bind=True, base=AbortableTask)
    def abortable(self: Any) -> str:
        note("running")
        for _ in range(200):
            if self.is_aborted():
                return "aborted"
            time.sleep(0.05)
        return "not aborted"


if RUNS in os.environ:
    app = build(os.environ)
    app.steps["worker"].add(Step)
    add(app)
    for signal in SIGNALS:
        getattr(signals, signal).connect(listen(signal), weak=False)
