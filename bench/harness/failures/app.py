"""The application of the failure experiments: every start and end of a body is on disk.

The file named by ``FAILURES_RUNS`` outlives every fault; see ``bodies.py`` for its lines.
"""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery

from bench.harness.failures.bodies import write_down
from tq_celery import TQ

__all__ = ["app", "note", "tq", "work"]

app = Celery(
    "failures",
    broker=os.environ["FAILURES_BROKER"],
    backend=os.environ.get("FAILURES_BACKEND") or None,
)
app.conf.update(
    task_ignore_result=not os.environ.get("FAILURES_BACKEND"),
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    # A server that is killed with its clients connected is noticed by those that wait for it.
    broker_transport_options={"socket_timeout": 5},
)
tq = TQ(app)


def note(word: str, request: Any) -> None:
    """Write down that a body starts (``S``) or ends (``E``)."""
    write_down(os.environ["FAILURES_RUNS"], word, request)


@tq.task(bind=True, name="failures.work")
def work(self: Any, seconds: float) -> None:
    """Take a slot for ``seconds``."""
    note("S", self.request)
    time.sleep(seconds)
    note("E", self.request)
