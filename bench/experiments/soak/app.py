"""The application of the soak: four kinds of task, each start and end of a body on disk.

The file named by ``SOAK_RUNS`` outlives every fault; see ``bench/harness/failures/bodies.py`` for
its lines.
"""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery

from bench.harness.failures.bodies import write_down
from tq_celery import TQ

__all__ = ["KINDS", "app", "tq"]

#: Kinds of task and how many of a hundred are of each.
KINDS = {"work": 70, "delayed": 10, "retried": 10, "failing": 10}

app = Celery("soak", broker=os.environ["SOAK_BROKER"])
app.conf.update(
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    # A server that is killed with its clients connected is noticed by those that wait for it.
    broker_transport_options={"socket_timeout": 5},
)
tq = TQ(app)


def _note(word: str, request: Any) -> None:
    write_down(os.environ["SOAK_RUNS"], word, request)


def _work(request: Any, seconds: float) -> None:
    _note("S", request)
    time.sleep(seconds)
    _note("E", request)


@tq.task(bind=True, name="soak.work")
def work(self: Any, seconds: float) -> None:
    """Take a slot for ``seconds``."""
    _work(self.request, seconds)


@tq.task(bind=True, name="soak.retried", max_retries=1)
def retried(self: Any, seconds: float) -> None:
    """Ask for one retry half a second later."""
    _work(self.request, seconds)
    if self.request.retries == 0:
        raise self.retry(countdown=0.5)


@tq.task(bind=True, name="soak.failing", throws=(ArithmeticError,))
def failing(self: Any, seconds: float) -> None:
    """Raise after the work."""
    _work(self.request, seconds)
    raise ArithmeticError("as planned")
