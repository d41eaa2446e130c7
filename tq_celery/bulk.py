"""Submitting many tasks in few round trips.

Each call is built as ``apply_async`` builds it. Calls of one task that differ only in arguments, id
and our options share a template: Celery builds the first message, and the others are that message
with their own id, body and header in it. Whatever needs more than that (other options, signal
receivers, ``task-sent`` events, another serializer, a workflow) is built by Celery each time.

A batch travels while the next one is built.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from celery import Task, signals
from celery.canvas import Signature
from celery.local import PromiseProxy
from celery.utils import uuid
from celery.utils.saferepr import saferepr
from kombu.exceptions import OperationalError

from tq_celery import envelope
from tq_celery.effective import Effective, current_request, resolve, take_call
from tq_celery.errors import BulkError, DuplicateTaskError, StoreUnavailableError
from tq_celery.inheritance import HEADER
from tq_celery.options import OPTION_NAMES, Rules
from tq_celery.store.contract import MAX_BATCH, Receipt, Submission
from tq_celery.store.record import TaskKey
from tq_celery.submit import SubmitProducer, collect

if TYPE_CHECKING:
    from tq_celery.app import TQ

__all__ = ["Call", "submit_many"]

#: Options a call may have without leaving the fast way.
_LIGHT = frozenset((*OPTION_NAMES, "task_id", "countdown", "eta"))
_EMBED = ', {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]'
#: The bits of a random UUID that are random, and those that say it is one (RFC 9562, version 4).
_ID_BITS = (1 << 128) - 1 ^ (0xF << 76) ^ (0x3 << 62)
_ID_VERSION = 0x4 << 76 | 0x2 << 62
#: Headers whose text is kept.
_MOST_HEADERS = 4096
_quote = json.encoder.encode_basestring_ascii
#: Types whose ``repr`` is what Celery's ``saferepr`` gives for them.
_PLAIN = frozenset((int, float, bool, type(None)))


class Call(NamedTuple):
    """One call: a task, and what ``apply_async`` takes."""

    task: Any
    args: Any = ()
    kwargs: Any = None
    options: Mapping[str, Any] | None = None


class _Template(NamedTuple):
    """A message of a task with gaps, and what is needed to fill them."""

    pieces: tuple[str, ...]
    queue: str
    rules: Rules
    hears: bool


class _Batch(NamedTuple):
    """Built submissions with the index of the call each belongs to."""

    indexes: list[int]
    submissions: list[Submission]


def submit_many(tq: TQ, calls: Iterable[Any]) -> list[str]:
    """Submit calls in batches of at most 500; see :meth:`tq_celery.TQ.submit_many`."""
    builder = _Builder(tq)
    errors: dict[int, Exception] = {}
    ids: list[str | None] = []
    numbered = enumerate(_each(calls))
    # One thread: batches keep their order, and the next is built while one is on its way.
    with ThreadPoolExecutor(1, "tq-bulk") as courier:
        under_way: tuple[_Batch, Future[list[Receipt | Exception]]] | None = None
        while True:
            batch, taken = builder.build(islice(numbered, MAX_BATCH), ids, errors)
            if under_way is not None:
                _land(*under_way, ids, errors)
                under_way = None
            if any(isinstance(error, OperationalError) for error in errors.values()):
                # What was just built is not sent any more.
                for index in batch.indexes:
                    errors.setdefault(index, OperationalError("not attempted"))
                    ids[index] = None
                break
            if batch.submissions:
                send = copy_context().run
                under_way = (
                    batch,
                    courier.submit(send, tq.producers.submit_many, batch.submissions, tq.limits),
                )
            if not taken:
                break
    if errors:
        raise BulkError(errors, ids)
    return [each for each in ids if each is not None]


def _each(calls: Iterable[Any]) -> Iterator[Any]:
    if isinstance(calls, Signature) and calls.get("subtask_type") == "group":
        return iter(calls.tasks)
    return iter(calls)


def _land(
    batch: _Batch,
    future: Future[list[Receipt | Exception]],
    ids: list[str | None],
    errors: dict[int, Exception],
) -> None:
    """Note what became of a batch."""
    try:
        replies = future.result()
    except StoreUnavailableError as error:
        # Its outcome is unknown; the same ids may be sent again.
        failed = OperationalError(str(error))
        replies = [failed] * len(batch.indexes)
    for index, reply in zip(batch.indexes, replies, strict=True):
        if isinstance(reply, Exception):
            errors[index] = reply
            if not isinstance(reply, OperationalError | DuplicateTaskError):
                ids[index] = None


def _new_ids() -> Iterator[str]:
    """Yield random UUIDs, as Celery's; asking the system for each takes longer than the rest."""
    while True:
        raw = os.urandom(16 * MAX_BATCH)
        for start in range(0, len(raw), 16):
            number = int.from_bytes(raw[start : start + 16], "big")
            text = f"{number & _ID_BITS | _ID_VERSION:032x}"
            yield f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class _Builder:
    """Builds the submissions of one bulk call."""

    def __init__(self, tq: TQ) -> None:
        self._tq = tq
        self._templates: dict[str, _Template | None] = {}
        self._slow = bool(
            signals.before_task_publish.receivers
            or signals.after_task_publish.receivers
            or signals.task_sent.receivers
            or tq.app.conf.task_send_sent_event
            or tq.app.conf.task_always_eager
            or current_request() is not None
        )
        self._levels = tq.app.conf.task_repr_maxlevels
        self._ids = _new_ids()
        self._headers: dict[Effective, str] = {}

    def build(
        self,
        calls: Iterable[tuple[int, Any]],
        ids: list[str | None],
        errors: dict[int, Exception],
    ) -> tuple[_Batch, bool]:
        """Build the next calls; returns them and whether there were any."""
        batch, taken = _Batch([], []), False
        for index, item in calls:
            taken = True
            ids.append(None)
            try:
                call = _call(item)
                found = self._light(call) if not self._slow else None
                if found is not None:
                    batch.submissions.append(found)
                    ids[index] = found.key.id
                else:
                    with collect() as built:
                        ids[index] = _apply(item, call).id
                    batch.submissions.extend(built)
            except Exception as error:  # noqa: BLE001 - each call fails by itself, and is named
                errors[index] = error
            batch.indexes.extend([index] * (len(batch.submissions) - len(batch.indexes)))
        return batch, taken

    def _light(self, call: Call | None) -> Submission | None:
        """Return the submission of a call that fits its task's template, or None."""
        if call is None:
            return None
        options = dict(call.options or ())
        if not _LIGHT.issuperset(options):
            return None
        task, args, kwargs = call.task, call.args or (), call.kwargs or {}
        name = task.name
        if name not in self._templates:
            self._templates[name] = self._template(task, args, kwargs)
        template = self._templates[name]
        if template is None:
            return None
        if not isinstance(args, list | tuple) or not isinstance(kwargs, Mapping):
            return None  # Celery's own error
        if task.typing:
            task.__header__(*args, **kwargs)
        tq = self._tq
        task_id = options.pop("task_id", None) or next(self._ids)
        delay, due = tq.publisher.when(options.pop("countdown", None), options.pop("eta", None))
        found = resolve(
            template.rules, take_call(options), (args, kwargs, options), None, tq.default
        )
        try:
            body = f"[{_encode(args)}, {_encode(kwargs)}{_EMBED}"
        except (TypeError, ValueError):
            return None  # Celery says it in its own words
        quoted = _quote(task_id)
        a, b, c, d, e, f, g, h, z = template.pieces
        payload = (
            f"{a}{_quote(body)}{b}{quoted}{c}{quoted}{d}{_quote(self._repr(args))}"
            f"{e}{_quote(self._repr(kwargs))}{f}{self._header(found)}{g}{quoted}"
            f"{h}{found.priority}{z}"
        )
        if template.hears:
            submit = SubmitProducer(tq.publisher, found)
            try:
                task.backend.on_task_call(submit, task_id)
            finally:
                submit.release()
        at, within = found.deadline or (None, None)
        return Submission(
            TaskKey(task_id),
            template.queue,
            found.tenant,
            payload.encode("ascii"),
            envelope.digest(name, task_id, 0, 0, body),
            found.cost,
            found.priority,
            at,
            within,
            delay,
            due,
        )

    def _header(self, found: Effective) -> str:
        """Return the ``tq`` header's text, kept while nothing in it depends on the time."""
        text = self._headers.get(found)
        if text is None:
            tq = self._tq
            text = _encode(found.header(int(time.time() * 1000) + tq.producers.clock_offset))
            if found.deadline is None:
                if len(self._headers) >= _MOST_HEADERS:
                    self._headers.clear()
                self._headers[found] = text
        return text

    def _repr(self, value: Any) -> str:
        """Return Celery's short form of arguments."""
        if not value:
            return repr(value)
        if type(value) is tuple and len(value) < 9 and _PLAIN.issuperset(map(type, value)):
            return repr(value)
        return str(saferepr(value, 1024, maxlevels=self._levels))

    def _template(self, task: Any, args: Any, kwargs: Any) -> _Template | None:
        """Have Celery build one message of the task; None when it cannot be a template."""
        kind = type(task)
        rules = self._tq.routes.rules_of(task.name, task)
        if (
            rules is None
            or kind.shadow_name is not Task.shadow_name
            or getattr(task, "_dump_pydantic_arguments", None) is not None
            or not _sends_as_celery_does(kind)
        ):
            return None
        marks = [f"@{uuid()}@" for _ in range(3)]
        with collect() as built:
            Task.apply_async(task, args, kwargs, marks[0], argsrepr=marks[1], kwargsrepr=marks[2])
        submission = built[0]
        message = json.loads(submission.payload)
        if message["content-type"] != "application/json" or "compression" in message["headers"]:
            return None
        message["body"] = "@body@"
        message["headers"][HEADER] = "@tq@"
        message["properties"]["priority"] = "@priority@"
        return _Template(
            _split(message, marks),
            submission.queue,
            rules,
            not message["headers"]["ignore_result"],
        )


_encode = envelope.to_json


def _split(message: dict[str, Any], marks: list[str]) -> tuple[str, ...]:
    """Cut a message at its gaps, which must come in the order in which they are filled."""
    order = ["@body@", marks[0], marks[0], marks[1], marks[2], "@tq@", marks[0], "@priority@"]
    headers = message["headers"]
    last = ("id", "root_id", "argsrepr", "kwargsrepr", HEADER)
    message["headers"] = {k: v for k, v in headers.items() if k not in last} | {
        k: headers[k] for k in last
    }
    properties = message["properties"]
    message["properties"] = {
        "correlation_id": properties.pop("correlation_id"),
        "priority": properties.pop("priority"),
        **properties,
    }
    rest = _encode(message)
    pieces = []
    for mark in order:
        piece, _, rest = rest.partition(_quote(mark))
        pieces.append(piece)
    return (*pieces, rest)


def _sends_as_celery_does(kind: type[Any]) -> bool:
    return kind.apply_async is Task.apply_async


def _call(item: Any) -> Call | None:
    """Return an item as one call of a task; None for a workflow."""
    if isinstance(item, Signature):
        if item.get("subtask_type"):
            return None
        return Call(item.type, item.args, item.kwargs, item.options)
    if isinstance(item, tuple) and 1 <= len(item) <= 4 and hasattr(item[0], "apply_async"):
        call = Call(*item)
        if type(call.task) is PromiseProxy:
            return call._replace(task=call.task._get_current_object())
        return call
    raise TypeError(
        f"expected a signature or (task, args, kwargs, options), got {type(item).__name__}"
    )


def _apply(item: Any, call: Call | None) -> Any:
    """Send one item as Celery does."""
    if isinstance(item, Signature) or call is None:
        return item.apply_async()
    return call.task.apply_async(call.args, call.kwargs, **dict(call.options or ()))
