"""The application of the failure experiments: every start and end of a body is on disk.

The file named by ``FAILURES_RUNS`` outlives every fault. A line is written with one ``write``, so
that processes never mix theirs: ``S`` or ``E``, task id, retries, worker's name, seconds on the
system's monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from celery import Celery

from tq_celery import TQ

__all__ = ["app", "deadly", "failing", "note", "tq", "work"]

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
    line = f"{word} {request.id} {request.retries} {request.hostname} {time.monotonic():.6f}\n"
    file = os.open(os.environ["FAILURES_RUNS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


@tq.task(bind=True, name="failures.work")
def work(self: Any, seconds: float) -> None:
    """Take a slot for ``seconds``."""
    note("S", self.request)
    time.sleep(seconds)
    note("E", self.request)


@tq.task(bind=True, name="failures.failing", throws=(ArithmeticError,))
def failing(self: Any, seconds: float) -> None:
    """Raise after the work."""
    note("S", self.request)
    time.sleep(seconds)
    note("E", self.request)
    raise ArithmeticError("as planned")


@tq.task(bind=True, name="failures.deadly")
def deadly(self: Any) -> None:
    """Kill the process it runs in."""
    note("S", self.request)
    os.kill(os.getpid(), signal.SIGKILL)
