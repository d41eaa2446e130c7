"""Messages of one task that differ in arguments, id and scheduling options: all else is made once.

Celery builds a task's first message; the others are that message with their own id, body, reprs and
``tq`` header in its gaps. Whatever needs more than that (other options, a router that looks at
arguments, another serializer, a class that sends in its own way) is left to Celery each time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from celery import Task
from celery.app.routes import MapRoute
from celery.local import PromiseProxy
from celery.utils import uuid
from celery.utils.saferepr import saferepr

from tq_celery import envelope
from tq_celery.effective import Effective, ambient_tenant, resolve, take_call
from tq_celery.inheritance import HEADER
from tq_celery.options import OPTION_NAMES, Rules
from tq_celery.store.contract import MAX_BATCH, Submission
from tq_celery.store.record import TaskKey
from tq_celery.submit import SubmitProducer, collect

if TYPE_CHECKING:
    from tq_celery.app import TQ

__all__ = ["Templates"]

#: Options a call may have without leaving the fast way.
_LIGHT = frozenset((*OPTION_NAMES, "task_id", "countdown", "eta"))
_EMBED = ', {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]'
#: The first hexadecimal digit of a UUID's fourth group says its variant (RFC 9562).
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
#: Headers whose text is kept.
_MOST_HEADERS = 4096
#: Types whose ``repr`` is what Celery's ``saferepr`` gives for them.
_PLAIN = frozenset((int, float, bool, type(None)))
_encode = envelope.to_json
_quote = json.encoder.encode_basestring_ascii


class _Template(NamedTuple):
    """A message of a task with gaps, and what is needed to fill them.

    ``fixed`` are the options of a call that brings none, unless an ambient tenant says otherwise;
    None where they are read from arguments. ``hears``: the result backend is told of each call.
    """

    task: Any
    name: str
    pieces: tuple[str, ...]
    queue: str
    rules: Rules
    fixed: Effective | None
    hears: bool


class Templates:
    """The templates of one bulk submission."""

    def __init__(self, tq: TQ) -> None:
        self._tq = tq
        self._app: Any = tq.app
        #: By identity of the task: its template, None when it has none. The task is kept with it,
        #: so that no other object gets that identity.
        self._known: dict[int, tuple[Any, _Template | None]] = {}
        self._levels = tq.app.conf.task_repr_maxlevels
        self._ids = _new_ids()
        self._headers: dict[Effective, str] = {}

    def fill(
        self, task: Any, args: Any, kwargs: Any, options: Mapping[str, Any]
    ) -> Submission | None:
        """Return the submission of a call, or None when Celery has to build it.

        Raises OptionError, and TypeError where the arguments do not fit the task.
        """
        if options and not _LIGHT.issuperset(options):
            return None
        known = self._known.get(id(task))
        if known is None:
            known = self._known[id(task)] = (task, self._template(task, args, kwargs))
        template = known[1]
        if template is None or not isinstance(args, list | tuple) or type(kwargs) is not dict:
            return None
        if template.task.typing:
            template.task.__header__(*args, **kwargs)
        delay = due = task_id = None
        found = template.fixed
        if options or found is None or ambient_tenant() is not None:
            tq, own = self._tq, dict(options)
            task_id = own.pop("task_id", None)
            delay, due = tq.publisher.when(own.pop("countdown", None), own.pop("eta", None))
            found = resolve(template.rules, take_call(own), (args, kwargs, own), None, tq.default)
        if not task_id:
            task_id = next(self._ids)
        elif type(task_id) is not str or not task_id.isascii():
            return None  # it is looked at more closely there
        try:
            said_args = _encode(args) if args else "[]"
            said_kwargs = _encode(kwargs) if kwargs else "{}"
        except (TypeError, ValueError, RecursionError):
            return None  # Celery says it in its own words
        body = f"[{said_args}, {said_kwargs}{_EMBED}"
        quoted = _quote(task_id)
        a, b, c, d, e, f, g, h, z = template.pieces
        payload = (
            f"{a}{_quote(body)}{b}{quoted}{c}{quoted}{d}{_quote(self._repr(args))}"
            f"{e}{_quote(self._repr(kwargs))}{f}{self._header(found)}{g}{quoted}"
            f"{h}{found.priority}{z}"
        )
        if template.hears:
            self._tell_backend(template.task, found, task_id)
        at, within = found.deadline or (None, None)
        return Submission(
            TaskKey(task_id),
            template.queue,
            found.tenant,
            payload.encode("ascii"),
            envelope.digest(template.name, task_id, 0, 0, body),
            found.cost,
            found.priority,
            at,
            within,
            delay,
            due,
        )

    def _tell_backend(self, task: Any, found: Effective, task_id: str) -> None:
        submit = SubmitProducer(self._tq.publisher, found)
        try:
            task.backend.on_task_call(submit, task_id)
        finally:
            submit.release()

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
        if type(task) is PromiseProxy:
            task = task._get_current_object()
        if not isinstance(task, Task):
            return None
        tq, kind = self._tq, type(task)
        if task.app is not self._app or kind.apply_async is not Task.apply_async:
            return None
        rules = tq.routes.rules_of(task.name, task)
        if (
            rules is None
            or tq.publisher.fraction(rules) < 1.0  # Celery's way has the id first
            or kind.shadow_name is not Task.shadow_name
            or getattr(task, "_dump_pydantic_arguments", None) is not None
            or any(type(route) is not MapRoute for route in self._app.amqp.router.routes)
        ):
            return None
        marks = [f"@{uuid()}@" for _ in range(3)]
        with collect() as built:
            Task.apply_async(task, args, kwargs, marks[0], argsrepr=marks[1], kwargsrepr=marks[2])
        if len(built) != 1:
            return None
        message = json.loads(built[0].payload)
        if message["content-type"] != "application/json" or "compression" in message["headers"]:
            return None
        if not envelope.is_kombu_json("json"):
            return None
        message["body"] = "@body@"
        message["headers"][HEADER] = "@tq@"
        message["properties"]["priority"] = "@priority@"
        rules = tq.publisher.with_route(rules, {}, task.name, args, kwargs, {"task_type": task})
        fixed = None if rules.rules else resolve(rules, {}, ((), {}, {}), None, tq.default)
        if ambient_tenant() is not None:
            fixed = None
        hears = not message["headers"]["ignore_result"]
        return _Template(
            task, task.name, _split(message, marks), built[0].queue, rules, fixed, hears
        )


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


def _new_ids() -> Iterator[str]:
    """Yield random UUIDs, as Celery's; asking the system for each takes longer than the rest."""
    while True:
        digits = os.urandom(16 * MAX_BATCH).hex()
        for i in range(0, len(digits), 32):
            x = digits[i : i + 32]
            yield f"{x[:8]}-{x[8:12]}-4{x[13:16]}-{_VARIANT[x[16]]}{x[17:20]}-{x[20:]}"
