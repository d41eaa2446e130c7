"""The application that worker tests run: the test process sends, real workers execute.

Every task notes its starts in the Redis list ``runs``, so a test can count executions.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Mapping
from typing import Any

import redis
from celery import Celery, Task
from celery.exceptions import Ignore, Reject
from celery.worker.request import Request

from tests.celery import retry_tasks, stopping_tasks
from tq_celery import TQ

#: Environment of a worker under test, beside the settings' own ``TQ_*``.
BROKER, BACKEND, RUNS, CONF = "LAB_BROKER", "LAB_BACKEND", "LAB_RUNS", "LAB_CONF"


class NotedRequest(Request):
    """A request class of the application's own, which must keep working."""

    def on_failure(self, exc_info, send_failed_event=True, return_ok=False):
        _note("custom-failure", self.id)
        return super().on_failure(exc_info, send_failed_event, return_ok)


class CustomTask(Task):
    Request = "tests.celery.worker_tasks:NotedRequest"


_client: redis.Redis | None = None


def _note(kind: str, task_id: str | None = None, **fields: Any) -> None:
    global _client
    if _client is None:
        _client = redis.Redis.from_url(os.environ[RUNS], protocol=2)
    entry = {"kind": kind, "id": task_id, "pid": os.getpid(), "at": time.monotonic(), **fields}
    _client.rpush("runs", json.dumps(entry))


def _hold(word: str) -> None:
    """Wait until the test lets ``word`` go on, or is no more."""
    assert _client is not None
    give_up = time.monotonic() + 150.0
    while not _client.exists(f"let:{word}") and time.monotonic() < give_up:
        time.sleep(0.02)


def _noted(task_id: str, kind: str = "start") -> int:
    """Return how many notes of a kind a task has made, in whatever process."""
    assert _client is not None
    notes = [json.loads(raw) for raw in _client.lrange("runs", 0, -1)]
    return sum(note["kind"] == kind and note["id"] == task_id for note in notes)


def repr_of_request(request: Any) -> str:
    """Return everything a task finds in its request, as JSON."""
    names = [name for name in dir(request) if not name.startswith("_")]
    found = {name: getattr(request, name) for name in names}
    return json.dumps({k: v for k, v in found.items() if not callable(v)}, default=repr)


def build(environ: Mapping[str, str], **settings: Any) -> Celery:
    """Return the application with its tasks; ``settings`` are given to ``TQ``."""
    app = Celery("lab", broker=environ[BROKER], backend=environ[BACKEND], set_as_current=False)
    app.conf.update(
        {
            "broker_connection_retry_on_startup": True,
            "worker_hijack_root_logger": False,
            "result_backend_transport_options": {"retry_policy": {"timeout": 1.0}},
            **json.loads(environ.get(CONF, "{}")),
        }
    )
    tq = TQ(app, **settings)

    @tq.task(shared=False, name="noop", ignore_result=True)
    def noop() -> None: ...

    @tq.task(shared=False, name="add")
    def add(x: int, y: int) -> int:
        return x + y

    @tq.task(shared=False, name="nap", bind=True)
    def nap(self, seconds: float, mark: str = "") -> str:
        _note("start", self.request.id, mark=mark)
        time.sleep(seconds)
        _note("end", self.request.id, mark=mark)
        return mark

    @tq.task(shared=False, name="hold", bind=True)
    def hold(self, word: str = "go") -> str:
        """Run until the test says ``lab.let(word)``."""
        _note("start", self.request.id)
        _hold(word)
        _note("end", self.request.id)
        return word

    @tq.task(shared=False, name="hog", bind=True)
    def hog(self, seconds: float) -> None:
        """Hold the interpreter's lock, as C code does that never lets go of it."""
        _note("start", self.request.id)
        ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
        _note("end", self.request.id)

    @tq.task(shared=False, name="spin", bind=True)
    def spin(self, seconds: float) -> None:
        """Run without ever yielding to another greenlet."""
        _note("start", self.request.id)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        _note("end", self.request.id)

    @tq.task(shared=False, name="die", bind=True)
    def die(self) -> None:
        _note("start", self.request.id)
        os.kill(os.getpid(), 9)

    @tq.task(shared=False, name="fail")
    def fail() -> None:
        raise ValueError("as asked")

    @tq.task(shared=False, name="custom_fail", base=CustomTask)
    def custom_fail() -> None:
        raise ValueError("as asked")

    @tq.task(shared=False, name="fail_at_length", ignore_result=True)
    def fail_at_length(seconds: float) -> None:
        time.sleep(seconds)
        raise ValueError("x" * 500_000)

    @tq.task(shared=False, name="again", bind=True, max_retries=5)
    def again(self, times: int) -> str:
        _note("start", self.request.id, retries=self.request.retries)
        if self.request.retries < times:
            raise self.retry(countdown=retry_tasks.RETRY_AFTER)
        return "done"

    @tq.task(shared=False, name="swap", bind=True)
    def swap(self) -> None:
        raise self.replace(add.s(2, 3))

    @tq.task(shared=False, name="skip")
    def skip() -> None:
        raise Ignore

    @tq.task(shared=False, name="refuse", bind=True)
    def refuse(self, requeue: bool) -> None:
        _note("start", self.request.id)
        raise Reject("as asked", requeue=requeue)

    @tq.task(shared=False, name="early", bind=True, acks_late=False)
    def early(self) -> None:
        _note("start", self.request.id)
        os.kill(os.getpid(), 9)

    @tq.task(shared=False, name="leave")
    def leave() -> None:
        raise SystemExit(3)

    @tq.task(shared=False, name="limited", rate_limit="5/s", bind=True)
    def limited(self) -> None:
        _note("start", self.request.id)

    @tq.task(shared=False, name="note", bind=True)
    def note(self, *args: Any, mark: str = "") -> None:
        _note("note", self.request.id, mark=mark)

    @tq.task(shared=False, name="by_id")
    def by_id(task_id: str) -> None:
        """An errback of the old kind."""
        _note("by-id", task_id)

    def look(self, *args: Any, **kwargs: Any) -> str:
        return repr_of_request(self.request)

    tq.task(shared=False, name="look", bind=True)(look)
    app.task(shared=False, name="stock_look", bind=True)(look)

    @app.task(shared=False, name="stock_nap", bind=True)
    def stock_nap(self, seconds: float) -> None:
        _note("stock", self.request.id)
        time.sleep(seconds)

    @app.task(shared=False, name="stock_hold", bind=True)
    def stock_hold(self, word: str = "go") -> None:
        _note("stock", self.request.id)
        _hold(word)

    @app.task(shared=False, name="collect", bind=True)
    def collect(self, *args: Any) -> None:
        _note("collect", self.request.id)

    retry_tasks.declare(tq, _note)
    stopping_tasks.declare(tq, _note, _noted, _hold)
    app.finalize()
    return app
