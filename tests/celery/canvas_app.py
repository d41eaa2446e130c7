"""An application of sixty-nine tasks and the workflows it runs, with our scheduler or without.

``build`` declares the same tasks for stock Celery and for a namespace: of every three plain
functions two are scheduled and one is an ordinary Celery task, so that every shape mixes the two.
Each task counts its calls in Redis by name and arguments, with ids left out. ``WORKFLOWS`` is in
:mod:`tests.celery.canvas_workflows`; ``celery -A tests.celery.canvas_app worker`` runs it.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import redis
from celery import Celery, chain, chord, group, signals
from celery.exceptions import Reject

from tests.celery.retry_tasks import RETRY_AFTER
from tq_celery import TQ

#: Environment of a worker: addresses, a file of settings, and whether TQ is attached.
BROKER, BACKEND, CALLS, CONF, SCHEDULED = (
    "CANVAS_BROKER", "CANVAS_BACKEND", "CANVAS_CALLS", "CANVAS_CONF", "CANVAS_SCHEDULED",
)  # fmt: skip

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_client: redis.Redis | None = None


def without_ids(text: object) -> str:
    """Return the text with ``<id>`` in place of every task id."""
    return _ID.sub("<id>", str(text))


def count(name: str, *args: object) -> None:
    """Count one call of a task with these arguments."""
    _calls().hincrby("calls", f"{name}{without_ids(args)}", 1)


def _calls() -> redis.Redis:
    global _client
    if _client is None:
        _client = redis.Redis.from_url(os.environ[CALLS], protocol=2)
    return _client


def flat(value: Any, plus: int = 0) -> int:
    """Sum numbers in lists in lists."""
    return plus + (sum(map(flat, value)) if isinstance(value, (list, tuple)) else value)


#: Plain functions: every third one, from the third on, is an ordinary Celery task.
PLAIN: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "double": lambda x: 2 * x,
    "negate": lambda x: -x,
    "square": lambda x: x * x,
    "halve": lambda x: x // 2,
    "modulo": lambda x, by=7: x % by,
    "power": lambda x, to=2: x**to,
    "one": lambda: 1,
    "two": lambda: 2,
    "three": lambda: 3,
    "echo": lambda value: value,
    "pair": lambda x, y: [x, y],
    "swapped": lambda values: values[::-1],
    "total": lambda values: sum(values),
    "largest": lambda values: max(values),
    "smallest": lambda values: min(values),
    "length": lambda values: len(values),
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "ordered": lambda values: sorted(values),
    "flat": flat,
    "product": lambda values: functools.reduce(lambda x, y: x * y, values, 1),
    "flat_too": flat,
    "upper": lambda text: text.upper(),
    "flat_plain": flat,
    "lower": lambda text: text.lower(),
    "joined": lambda texts: "-".join(map(str, texts)),
    "words": lambda text: text.split(),
    "title": lambda text: text.title(),
    "prefixed": lambda text, prefix="": prefix + text,
    "letters": lambda text: len(text),
    "keys": lambda mapping: sorted(mapping),
    "merged": lambda mappings: {k: v for each in mappings for k, v in each.items()},
    "picked": lambda mapping, name: mapping[name],
    "entry": lambda name, value: {name: value},
    "even": lambda x: x % 2 == 0,
    "identity": lambda *args: list(args),
    "nothing": lambda *args: None,
    "mean": lambda values: sum(values) / len(values),
    "spread": lambda values: max(values) - min(values),
    "sequence": lambda n: list(range(n)),
    "increment": lambda x, by=1: x + by,
    "truth": lambda *args: True,
}


def build(environ: Mapping[str, str], *, scheduled: bool, **settings: Any) -> Celery:
    """Return the application; its tasks are also attributes of ``app.named``."""
    app = Celery("canvas", broker=environ[BROKER], backend=environ[BACKEND], set_as_current=False)
    app.conf.update(
        broker_connection_retry_on_startup=True,
        worker_hijack_root_logger=False,
        result_extended=True,
        result_chord_retry_interval=0.1,
        task_allow_error_cb_on_chord_header=False,
        result_backend_transport_options={"retry_policy": {"timeout": 1.0}},
        **json.loads(environ.get(CONF, "{}")),
    )
    tq = TQ(app, **settings) if scheduled else None

    def task(name: str, *, plain: bool = False, **options: Any) -> Callable[..., Any]:
        decorator = app.task if tq is None or plain else tq.task
        return decorator(name=name, shared=False, **options)

    for index, (name, function) in enumerate(PLAIN.items()):
        task(name, plain=index % 3 == 2)(_counted(name, function))
    for plain, suffix in ((False, ""), (True, "_plain")):
        declare = functools.partial(task, plain=plain)
        _declare_failing(declare, suffix)
        _declare_senders(app, declare, suffix)
    app.finalize()
    app.named = SimpleNamespace(**{n: t for n, t in app.tasks.items() if "." not in n})
    return app


def _counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def body(*args: Any, **kwargs: Any) -> Any:
        count(name, *args, *sorted(kwargs.items()))
        return function(*args, **kwargs)

    body.__name__ = name
    return body


def _declare_failing(task: Callable[..., Any], suffix: str) -> None:
    """Declare tasks that fail or are tried again, and what is called when they fail."""

    @task(f"fail{suffix}")
    def fail(*args: Any, mark: str = "") -> None:
        count(f"fail{suffix}", mark)
        raise ValueError(f"as asked {mark}")

    @task(f"on_failed{suffix}")
    def on_failed(task_id: str, mark: str = "") -> str:
        """An errback of the old kind: sent as a task, with the id of the failed one."""
        count(f"on_failed{suffix}", mark)
        return f"told {mark}"

    @task(f"on_error{suffix}")
    def on_error(request: Any, exc: Any, traceback: Any, mark: str = "") -> None:
        """An errback of the new kind: called where the failure is written."""
        count(f"on_error{suffix}", mark, type(exc).__name__)

    @task(f"again{suffix}", bind=True, max_retries=3)
    def again(self: Any, value: Any, times: int) -> Any:
        """Retry so many times; more than three is too often."""
        count(f"again{suffix}", value, times, self.request.retries)
        if self.request.retries < times:
            raise self.retry(countdown=RETRY_AFTER)
        return value

    @task(
        f"auto{suffix}", bind=True, autoretry_for=(KeyError,), max_retries=1,
        retry_backoff=RETRY_AFTER, retry_jitter=False,
    )  # fmt: skip
    def auto(self: Any, value: Any, times: int) -> Any:
        count(f"auto{suffix}", value, times, self.request.retries)
        if self.request.retries < times:
            raise KeyError("not yet")
        return value

    @task(f"refuses{suffix}")
    def refuses() -> None:
        count(f"refuses{suffix}")
        raise Reject("as asked", requeue=False)

    @task(f"dies{suffix}")
    def dies() -> None:
        """Take the process along, every time."""
        count(f"dies{suffix}")
        os.kill(os.getpid(), 9)

    @task(f"silent{suffix}", ignore_result=True)
    def silent(value: Any) -> Any:
        count(f"silent{suffix}", value)
        return value


def _declare_senders(app: Celery, task: Callable[..., Any], suffix: str) -> None:
    """Declare tasks that replace themselves or send others; ``kind`` says with what."""
    sig = app.signature

    def many(kind: str, value: int) -> Any:
        second = "sub" if kind.startswith("scheduled ") else "mul"
        kind = kind.removeprefix("scheduled ")
        parts = [sig("add", (value, 1), immutable=True), sig(second, (value, 2), immutable=True)]
        if kind == "task":
            return sig("add", (value, 10))
        if kind == "plain task":
            return sig("mul", (value, 10))
        if kind == "chain":
            return chain(sig("add", (value, 1)), sig(second, (2,)), sig("double"), app=app)
        if kind == "group":
            return group(parts, app=app)
        if kind == "chord":
            return chord(parts, sig("total"), app=app)
        if kind == "chain to group":
            return chain(
                sig("double", (value,)),
                group([sig("add", (1,)), sig("mul", (2,))], app=app),
                app=app,
            )
        if kind == "chord of chords":
            return chord([chord(parts, sig("total"), app=app), parts[0]], sig("flat"), app=app)
        if kind == "again":
            return sig("again", (value, 2))
        if kind == "fail":
            return sig("fail", kwargs={"mark": f"replaced {value}"})
        return sig("replaced", (value,), {"kind": kind.removeprefix("twice ")})

    @task(f"replaced{suffix}", bind=True)
    def replaced(self: Any, value: int, kind: str) -> Any:
        count(f"replaced{suffix}", value, kind)
        raise self.replace(many(kind, value))

    @task(f"sends{suffix}", bind=True)
    def sends(self: Any, value: int, kind: str, trail: bool = True) -> int:
        """Send something and leave it alone."""
        count(f"sends{suffix}", value, kind, trail)
        many(kind, value).apply_async(add_to_parent=trail)
        return value

    @task(f"retried_then_replaced{suffix}", bind=True, max_retries=3)
    def retried_then_replaced(self: Any, value: int, kind: str) -> Any:
        count(f"retried_then_replaced{suffix}", value, kind, self.request.retries)
        if self.request.retries < 1:
            raise self.retry(countdown=RETRY_AFTER)
        raise self.replace(many(kind, value))

    @task(f"grows{suffix}", bind=True)
    def grows(self: Any, value: int) -> int:
        """Add a member to the chord that this task belongs to."""
        count(f"grows{suffix}", value)
        self.add_to_chord(sig("add", (value, 100)))
        return value


def die_where_armed() -> None:
    """Let this worker be killed at a point that a test has armed, once.

    A point is a field of the Redis hash ``armed``: a signal's name and a task's, such as
    ``task_success:add``.
    """

    def connect(signal: Any, point: str) -> None:
        def die(sender: Any = None, **_: Any) -> None:
            name = sender if isinstance(sender, str) else sender.name
            if _calls().hdel("armed", f"{point}:{name}"):
                os.kill(os.getpid(), 9)

        signal.connect(die, weak=False)

    for point in ("task_success", "task_postrun", "before_task_publish", "after_task_publish"):
        connect(getattr(signals, point), point)


if os.environ.get(BROKER):
    die_where_armed()
    app = build(os.environ, scheduled=os.environ.get(SCHEDULED) == "yes")
