"""The application of the chaos tests: what workers run, and how a test sends to it.

Each start of a body appends one line to the file ``CHAOS_RUNS``, which outlives every fault of the
server. Workers get their addresses from the environment; a test calls :func:`make_app`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import Any

from celery import Celery, chain, chord, group
from celery.exceptions import Ignore

from tq_celery import TQ


def note(*words: object) -> None:
    """Append one line to the file of starts; a single write, so that lines never mix."""
    descriptor = os.open(os.environ["CHAOS_RUNS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, (" ".join(map(str, words)) + "\n").encode())
    finally:
        os.close(descriptor)


def make_app(broker: str, backend: str | None, **settings: Any) -> Celery:
    """Return the application; ``settings`` are those of TQ."""
    app = Celery("chaos", broker=broker, backend=backend, set_as_current=False)
    app.conf.update(
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=True,
        result_expires=300,
        task_ignore_result=backend is None,
        worker_lost_wait=0.5,
        broker_transport_options={"socket_timeout": 5},
    )
    declare(TQ(app, **settings))
    app.finalize()
    return app


def declare(tq: TQ) -> None:
    """Declare all tasks, by short names."""

    @tq.task(name="noop", shared=False)
    def noop() -> None:
        pass

    @tq.task(name="nap", shared=False, bind=True)
    def nap(self: Any, seconds: float) -> None:
        note(self.request.id, time.monotonic())
        time.sleep(seconds)

    @tq.task(name="hold", shared=False, bind=True)
    def hold(self: Any, seconds: int) -> None:
        """Hold the interpreter's lock: a C call made without releasing it."""
        note(self.request.id, time.monotonic())
        ctypes.PyDLL(None).sleep(seconds)

    @tq.task(name="spin", shared=False, bind=True)
    def spin(self: Any, seconds: float) -> None:
        """Use the processor without ever yielding a greenlet."""
        note(self.request.id, time.monotonic())
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    @tq.task(name="die_after_retry", shared=False, bind=True, max_retries=None)
    def die_after_retry(self: Any, times: int) -> None:
        """Be killed between the publish of the retry and its acknowledgement, ``times`` times."""
        note(self.request.id, self.request.retries)
        if self.request.retries < times:
            self.retry(countdown=0, throw=False)
            os.kill(os.getpid(), signal.SIGKILL)

    @tq.task(name="early_retry", shared=False, bind=True, acks_late=False, max_retries=5)
    def early_retry(self: Any, times: int) -> int:
        note(self.request.id, self.request.retries)
        time.sleep(0.2)  # longer than the settlement takes
        if self.request.retries < times:
            raise self.retry(countdown=0)
        return int(self.request.retries)

    @tq.task(name="add", shared=False)
    def add(x: int, y: int) -> int:
        note("add", x, y)
        return x + y

    @tq.task(name="total", shared=False)
    def total(values: list[int]) -> int:
        note("total", sum(values))
        return sum(values)

    @tq.task(name="swap", shared=False, bind=True, max_retries=5)
    def swap(self: Any, kind: str, retries: int) -> Any:
        """Replace itself by ``kind`` after so many retries; every kind amounts to 42."""
        note("swap", self.request.id, self.request.retries)
        if self.request.retries < retries:
            raise self.retry(countdown=0.1)  # its state is written after it was sent
        if kind == "task":
            raise self.replace(add.si(40, 2))
        if kind == "chain":
            raise self.replace(chain(add.si(20, 1), add.s(21)))
        if kind == "group":
            raise self.replace(group(add.si(20, 1), add.si(20, 1)))
        raise self.replace(chord([add.si(20, 1), add.si(20, 1)], total.s()))

    @tq.task(name="ignored", shared=False)
    def ignored() -> None:
        raise Ignore


if os.environ.get("CHAOS_BROKER"):
    app = make_app(
        os.environ["CHAOS_BROKER"],
        os.environ.get("CHAOS_BACKEND") or None,
    )
