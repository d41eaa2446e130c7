"""An application whose submissions are recorded, and a way to run them as a worker would."""

from __future__ import annotations

import json
import time
from typing import Any

from celery import Celery, _state
from celery.app.trace import build_tracer
from kombu.transport import TRANSPORT_ALIASES, memory, virtual

from tq_celery import TQ
from tq_celery.envelope import Envelope, decode
from tq_celery.store.contract import Limits, Receipt, Submission, Token
from tq_celery.store.producers import Line, Producers


class _Channel(memory.Channel):
    """Kombu's in-memory broker, whose queues outlive the connections that fill them."""

    def close(self) -> None:
        virtual.Channel.close(self)


class Transport(memory.Transport):
    """The stock broker of a lab."""

    Channel = _Channel


TRANSPORT_ALIASES["lab"] = "tests.celery.recording:Transport"

TOKEN = Token("celery", b"1700000000000-0", 3)


class Recorder:
    """A producer store that keeps what it is given; ``errors`` are raised first, in order."""

    def __init__(self) -> None:
        self.taken: list[Submission] = []
        self.errors: list[Exception] = []

    def submit(self, submission: Submission, limits: Limits) -> Receipt:
        if self.errors:
            raise self.errors.pop(0)
        self.taken.append(submission)
        return Receipt("accepted", int(time.time() * 1000))

    def submit_many(self, submissions: Any, limits: Limits) -> list[Any]:
        results: list[Any] = []
        for each in submissions:
            try:
                results.append(self.submit(each, limits))
            except Exception as error:
                results.append(error)
        return results


class Lab:
    """One application with a recorder: ``lab.tq``, ``lab.app``, ``lab.taken``, ``lab.sent``."""

    def __init__(self, backend: str | None = None, settings: Any = None, **conf: Any) -> None:
        _Channel.queues.clear()
        self.app = Celery("lab", broker="lab://", backend=backend, set_as_current=False)
        self.app.conf.update(conf)
        self.tq = TQ(self.app, **(settings or {}))
        self.recorder = Recorder()
        self.tq.producers = Producers(self.tq.settings, lambda _: Line(self.recorder))
        self.taken = self.recorder.taken

    def last(self) -> tuple[Submission, Envelope]:
        """Return the newest submission and its message."""
        return self.taken[-1], decode(self.taken[-1].payload)

    def headers(self) -> dict[str, dict[str, Any]]:
        """Return the ``tq`` header of every submission by task name."""
        return {
            envelope.headers["task"]: envelope.headers["tq"]
            for envelope in (decode(each.payload) for each in self.taken)
        }

    def stock(self, queue: str = "celery") -> list[dict[str, Any]]:
        """Take and return the messages that went to the stock broker's queue."""
        found = []
        with self.app.connection_for_read() as connection:
            channel = connection.default_channel
            while (message := channel.basic_get(queue, no_ack=True)) is not None:
                found.append({**message.headers, "body": json.loads(message.body)})
        return found

    def run(
        self,
        submission: Submission | dict[str, Any],
        token: Token | None = TOKEN,
        priority: int | None = None,
    ) -> Any:
        """Run a submission, or a stock message, the way a worker's pool does."""
        if isinstance(submission, Submission):
            message = decode(submission.payload)
            headers, body = dict(message.headers), json.loads(message.body)
            if token is not None:
                headers["tq_token"] = token.encode()
                headers["tq_key"] = submission.key.encode().decode()
            priority = message.properties["priority"]
        else:
            headers = dict(submission)
            body = headers.pop("body")
        args, kwargs, embed = body
        request = {
            **headers,
            "args": args,
            "kwargs": kwargs,
            "hostname": "here",
            "is_eager": False,
            "callbacks": embed["callbacks"],
            "errbacks": embed["errbacks"],
            "chain": embed["chain"],
            "chord": embed["chord"],
            "delivery_info": {"exchange": "", "routing_key": "celery", "priority": priority},
        }
        task = self.app.tasks[headers["task"]]
        tracer = build_tracer(task.name, task, app=self.app)
        before = _state._tls.current_app
        self.app.set_current()
        try:
            return tracer(headers["id"], args, kwargs, request)
        finally:
            _state._set_current_app(before)


def noop() -> None: ...


def add(lab: Lab, **options: Any) -> Any:
    """Declare a task ``lab.add(x, y)``."""

    @lab.tq.task(name="lab.add", **options)
    def add(x: Any, y: Any = 0) -> Any:
        return x + y

    return add
