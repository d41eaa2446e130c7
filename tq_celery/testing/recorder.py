"""Records what an application submits, without a server.

::

    with record(app) as recorder:
        order_report("acme")
    recorder.assert_submitted("proj.report", tenant="acme", deadline=30, times=1)

For as long as the block lasts, from every thread: scheduled tasks are checked and built as always
and kept instead of submitted, tasks that go to the broker are kept instead of published, and a dict
is the result backend. Nothing connects to anything.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from celery import signals
from kombu.serialization import loads

from tq_celery import envelope
from tq_celery.errors import TQError
from tq_celery.store.contract import Submission
from tq_celery.store.producers import Line, Producers
from tq_celery.submit import SubmitProducer
from tq_celery.testing.doubles import BrokerProducer, NoEvents, RecordingStore, ResultBackend
from tq_celery.testing.submitted import FIELDS, Submitted, differences

__all__ = ["Recorder", "record", "tq_of"]

#: Most submissions that a message lists.
SHOWN = 20


def tq_of(app: Any) -> Any:
    """Return the application's TQ; TQError says how to attach one."""
    tq = vars(app).get("tq")
    if tq is None:
        raise TQError(f"application {app.main!r} has no TQ; attach one with TQ(app)")
    return tq


class Recorder:
    """What was submitted so far, in order; safe among threads."""

    def __init__(self) -> None:
        self._calls: list[Submitted] = []
        self._lock = threading.Lock()

    @property
    def calls(self) -> list[Submitted]:
        """All calls, in the order in which they were submitted."""
        with self._lock:
            return list(self._calls)

    def clear(self) -> None:
        """Forget what was submitted."""
        with self._lock:
            self._calls.clear()

    def submitted(self, task: Any = None, **expected: Any) -> list[Submitted]:
        """Return the calls of ``task`` (a name, task or signature; None = any) that match.

        ``expected`` are fields of :class:`Submitted`; TypeError names one that is none.
        """
        unknown = sorted(set(expected) - set(FIELDS))
        if unknown:
            raise TypeError(f"{unknown[0]!r} is not a field; there are {', '.join(FIELDS)}")
        name = _name(task)
        return [
            call
            for call in self.calls
            if name in (None, call.name) and not differences(call, expected)
        ]

    def assert_submitted(
        self, task: Any = None, *, times: int | None = None, **expected: Any
    ) -> list[Submitted]:
        """Fail unless matching calls were submitted, ``times`` often if given; returns them.

        ``expected`` are fields of :class:`Submitted`, such as ``args=(7,)``, ``tenant="acme"``,
        ``deadline=30`` or ``queue="reports"``; what is not given is not compared. A time in seconds
        and one as a moment match when they are within a second of each other. The message lists
        what was submitted and how it differs.
        """
        found = self.submitted(task, **expected)
        if len(found) == times or (times is None and found):
            return found
        wanted = "a submission" if times is None else f"{times} submission{'s' * (times != 1)}"
        raise AssertionError(
            f"expected {wanted} of {_described(task, expected)}; found {len(found)}\n"
            + self._listing(task, expected)
        )

    def assert_not_submitted(self, task: Any = None, **expected: Any) -> None:
        """Fail if a matching call was submitted; without arguments, if anything was."""
        self.assert_submitted(task, times=0, **expected)

    def _listing(self, task: Any, expected: Mapping[str, Any]) -> str:
        calls, name = self.calls, _name(task)
        if not calls:
            return "nothing was submitted"
        lines = [f"submitted were {len(calls)}:"]
        for call in calls[:SHOWN]:
            notes = differences(call, expected) if name in (None, call.name) else []
            lines.append(f"  {call}" + (f"  <- {', '.join(notes)}" if notes else ""))
        if len(calls) > SHOWN:
            lines.append(f"  and {len(calls) - SHOWN} more")
        return "\n".join(lines)

    def _add(self, call: Submitted) -> None:
        with self._lock:
            self._calls.append(call)


@contextmanager
def record(app: Any) -> Iterator[Recorder]:
    """Record what ``app`` submits in this block, from any thread, instead of sending it.

    Raises TQError when the application has no TQ. Blocks of one application may be nested, the
    inner one records; they must end in the order in which they began.
    """
    tq = tq_of(app)
    recorder = Recorder()
    senders = (tq.publisher, tq.publisher._ordinary)
    original = tq.publisher._original

    def scheduled(submission: Submission) -> None:
        recorder._add(_from_submission(submission))

    def send(
        name: str, args: Any, kwargs: Any, countdown: Any, eta: Any, task_id: Any,
        producer: Any = None, connection: Any = None, **options: Any,
    ) -> Any:  # fmt: skip
        options["event_dispatcher"] = NoEvents()
        if not isinstance(producer, SubmitProducer):

            def to_broker(content: Any, **published: Any) -> None:
                recorder._add(_from_broker(content, countdown, published))

            producer = BrokerProducer(to_broker)
        return original(
            name, args, kwargs, countdown, eta, task_id, producer, connection, **options
        )

    def began(sender: Any = None, task_id: str = "", **_: Any) -> None:
        request = sender.request
        if sender.app is app and request.is_eager and app.conf.task_always_eager:
            recorder._add(_from_eager(sender.name, request))

    store = RecordingStore(scheduled)
    kept, backend = vars(tq).pop("producers", None), app._backend_cache
    tq.producers = Producers(tq.settings, lambda settings: Line(store))
    for sender in senders:
        sender._original = send
    app._backend_cache = ResultBackend(app)
    signals.task_prerun.connect(began, weak=False)
    try:
        yield recorder
    finally:
        signals.task_prerun.disconnect(began)
        app._backend_cache = backend
        for sender in senders:
            sender._original = original
        del tq.producers
        if kept is not None:
            tq.producers = kept


def _name(task: Any) -> str | None:
    if task is None or isinstance(task, str):
        return task
    # a signature is a dict that also has a name, of its type
    return str(task["task"] if isinstance(task, dict) else task.name)


def _described(task: Any, expected: Mapping[str, Any]) -> str:
    options = ", ".join(f"{name}={value!r}" for name, value in expected.items())
    return (_name(task) or "any task") + (f" with {options}" if options else "")


def _tenant(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _moment(ms: float) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _follows(embed: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of what is sent when the task has ended, next one first."""
    chord = embed.get("chord")
    after = [*reversed(embed.get("chain") or ()), *(embed.get("callbacks") or ())]
    return tuple(str(each["task"]) for each in (*after, *([chord] if chord else ())))


def _from_submission(submission: Submission) -> Submitted:
    message = envelope.decode(submission.payload)
    args, kwargs, embed = loads(
        message.body, message.content_type, message.content_encoding, accept={message.content_type}
    )
    within, at = submission.deadline_in, submission.deadline
    delay, due = submission.delay, submission.due
    return Submitted(
        name=message.headers["task"],
        args=tuple(args),
        kwargs=kwargs,
        id=submission.key.id,
        tenant=_tenant(submission.tenant),
        priority=submission.priority,
        cost=submission.cost,
        deadline=within / 1000 if within is not None else None if at is None else _moment(at),
        queue=submission.queue,
        countdown=None if delay is None else delay / 1000,
        eta=None if due is None else _moment(due),
        retries=submission.key.retries,
        then=_follows(embed),
        headers=message.headers,
    )


def _from_broker(content: Any, countdown: Any, published: Mapping[str, Any]) -> Submitted:
    kind, encoding, data = content
    headers = published.get("headers") or {}
    if isinstance(data, str):
        data = data.encode()
    args, kwargs, embed = loads(data, kind, encoding, accept={kind})
    eta = headers.get("eta")
    return Submitted(
        name=headers["task"],
        args=tuple(args),
        kwargs=kwargs,
        id=headers["id"],
        priority=published.get("priority"),
        queue=str(published.get("routing_key") or ""),
        countdown=countdown or None,
        eta=datetime.fromisoformat(eta) if eta and not countdown else None,
        retries=headers.get("retries") or 0,
        scheduled=False,
        then=_follows(embed),
        headers=headers,
        **_inherited(headers),
    )


def _from_eager(name: str, request: Any) -> Submitted:
    headers = dict(request.headers or {})
    found = _inherited(headers)
    return Submitted(
        name=name,
        args=tuple(request.args or ()),
        kwargs=dict(request.kwargs or {}),
        id=request.id,
        priority=(headers.get("tq") or {}).get("priority"),
        retries=request.retries or 0,
        scheduled="tq" in headers,
        eager=True,
        then=_follows({"chain": request.chain, "callbacks": request.callbacks}),
        headers=headers,
        **found,
    )


def _inherited(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options in a message's ``tq`` header."""
    header = headers.get("tq")
    if not isinstance(header, Mapping):
        return {}
    found: dict[str, Any] = {name: header[name] for name in ("tenant", "cost") if name in header}
    if header.get("deadline") is not None:
        found["deadline"] = _moment(header["deadline"])
    return found
