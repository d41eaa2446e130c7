"""The send hook: what ``Celery.send_task`` does for scheduled tasks, and for all others.

A scheduled send is still Celery's own: its ``send_task`` routes, builds the message, fires both
publish signals and the ``task-sent`` event. We give it a producer whose ``publish`` submits the
message to the namespace instead of a broker. Before that, while they are still separate, the
countdown or ETA is taken out (it becomes a delay or due time on the store's clock) and our options
are resolved and checked.

Any other send is passed on as it came. Only when it happens inside a scheduled task or workflow
does its message get one more header, ``tq``.
"""

from __future__ import annotations

import inspect
import logging
import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any

from celery.utils.time import maybe_make_aware
from kombu import serialization
from kombu.compression import compress
from kombu.exceptions import OperationalError

from tq_celery import envelope
from tq_celery.effective import (
    Effective,
    ambient_tenant,
    current_request,
    request_header,
    resolve,
    take_call,
)
from tq_celery.errors import DuplicateTaskError, StoreUnavailableError, UnsupportedTaskError
from tq_celery.inheritance import EMBEDDED, HEADER, KEY_HEADER, TOKEN_HEADER, embed, spread
from tq_celery.options import Rules
from tq_celery.queues import QueueNames
from tq_celery.states import Outcome
from tq_celery.store.contract import Submission, Token
from tq_celery.store.record import TaskKey

if TYPE_CHECKING:
    from tq_celery.app import TQ

__all__ = ["Publisher", "SubmitProducer"]

logger = logging.getLogger(__name__)

#: Options of ours that mean nothing to a broker; ``priority`` means something to both.
_OURS = ("tenant", "cost", "deadline")
#: Celery's tasks that run other tasks in a loop: they are scheduled when those are.
_LOOPS = frozenset({"celery.map", "celery.starmap"})
#: Longest countdown in seconds, about 300 years: a due time must stay an exact score.
_LONGEST_COUNTDOWN = 1e10


class Publisher:
    """Sends the tasks of one application; safe among threads, greenlets and after a fork."""

    def __init__(self, tq: TQ, original: Callable[..., Any]) -> None:
        self.tq = tq
        self.app = tq.app
        self._original = original
        self._names = QueueNames(tq.app)
        self._protocol_checked = False

    def send_task(
        self,
        name: str,
        args: Any = None,
        kwargs: Any = None,
        countdown: Any = None,
        eta: Any = None,
        task_id: str | None = None,
        producer: Any = None,
        connection: Any = None,
        *rest: Any,
        **options: Any,
    ) -> Any:
        """Send a task; stands in for :meth:`celery.Celery.send_task`, whose arguments it takes.

        For scheduled tasks raises OptionError for an option out of range, SubmitError when the
        namespace refuses the task, and kombu's OperationalError when the server did not answer
        within ``tq_publish_timeout``.
        """
        if rest:
            names = list(inspect.signature(self._original).parameters)[8:]
            options.update(zip(names, rest, strict=False))
        rules = self._rules(name, options)
        request = current_request()
        parent, outcome = self._parent(request, task_id, options)
        if rules is None and (parent is None or outcome is not Outcome.RETRIED):
            return self._send_plain(
                request, name, args, kwargs, countdown, eta, task_id, producer, connection, options
            )
        repeats = parent is not None and outcome is Outcome.RETRIED
        headers = options.get("headers")
        arguments = (args or (), kwargs or {}, options)
        found = resolve(
            rules or Rules({}, {}),
            take_call(options),
            arguments,
            headers,
            self.tq.default,
            repeats=repeats,
        )
        self._check_protocol()
        submit = SubmitProducer(self, found, producer)
        submit.parent, submit.outcome = parent, outcome
        submit.delay, submit.due = self._when(countdown, eta)
        submit.generation = _generation(request) if parent is not None else 0
        submit.once = options.get("retry") is False
        # A send of something frozen earlier (a chain's next task, a chord's body, a retry) may
        # happen twice when its sender is run again; then the first acceptance stands.
        submit.first_stands = request is not None and (
            bool(options.get("reply_to")) or bool(options.get("retries"))
        )
        header = found.header(int(time.time() * 1000) + self.tq.producers.clock_offset)
        options["headers"] = _with_header(headers, header)
        options["priority"] = found.priority
        # Retrying is ours: Celery's way needs a broker connection.
        options["retry"] = False
        if any(options.get(each) for each in EMBEDDED):
            submit.embedded = {each: options[each] for each in EMBEDDED if options.get(each)}
            spread(options, header if found.shares_cost else _without_cost(header))
        if self.app.conf.task_send_sent_event and "event_dispatcher" not in options:
            options["event_dispatcher"] = _Events(self.app)
        with submit:
            return self._original(name, args, kwargs, None, None, task_id, submit, None, **options)

    # --- what is scheduled -----------------------------------------------------------------------

    def _rules(self, name: str, options: Mapping[str, Any]) -> Rules | None:
        """Return the rules of a scheduled task, or None."""
        task = options.get("task_type")
        if task is None:
            self.tq.ensure_defined(name)
            task = self.app._tasks.get(name)
        rules: Rules | None = getattr(task, "tq_rules", None)
        if rules is not None:
            return rules
        rules = self.tq.routes.find(name, task)
        if rules is None and name in _LOOPS and options.get("route_name"):
            inner = self._rules(options["route_name"], {})
            return inner.literals() if inner is not None else None
        return rules

    def _parent(
        self, request: Any, task_id: str | None, options: Mapping[str, Any]
    ) -> tuple[Token | None, Outcome]:
        """Return the delivery that this send replaces, if it is a retry or a replacement."""
        text = vars(request).get(TOKEN_HEADER) if request is not None else None
        if text is None:
            return None, Outcome.RETRIED
        nesting = options.get("replaced_task_nesting") or 0
        if task_id == request.id and (options.get("retries") or 0) == request.retries + 1:
            outcome = Outcome.RETRIED
        elif nesting == (request.replaced_task_nesting or 0) + 1 and (
            task_id == request.id or options.get("group_id") in (None, request.group)
        ):
            # The whole replacement hangs on this one message; with a group it hangs on many.
            outcome = Outcome.REPLACED
        else:
            return None, Outcome.RETRIED
        try:
            return Token.decode(text), outcome
        except ValueError:
            return None, outcome

    # --- all other tasks -------------------------------------------------------------------------

    def _send_plain(
        self,
        request: Any,
        name: str,
        args: Any,
        kwargs: Any,
        countdown: Any,
        eta: Any,
        task_id: str | None,
        producer: Any,
        connection: Any,
        options: dict[str, Any],
    ) -> Any:
        """Pass a send on, with the workflow's header if there is a workflow."""
        headers = options.get("headers")
        # Backends that do not join chords themselves have the body sent by this task.
        unlocks = bool(name == "celery.chord_unlock" and args and len(args) > 1)
        contains = unlocks or any(options.get(each) for each in EMBEDDED)
        header = self._plain_header(request, headers, options, contains)
        if header:
            options["headers"] = _with_header(headers, header)
            spread(options, header)
            if unlocks:
                args = (args[0], embed(args[1], header), *args[2:])
        return self._original(
            name, args, kwargs, countdown, eta, task_id, producer, connection, **options
        )

    def _plain_header(
        self,
        request: Any,
        headers: Mapping[str, Any] | None,
        options: dict[str, Any],
        contains: bool,
    ) -> dict[str, Any]:
        """Return the header of a task that is not scheduled; empty outside a workflow."""
        header: dict[str, Any] = {}
        inherited = request_header(request) if request is not None else None
        if isinstance(inherited, Mapping):
            header.update(_without_cost(inherited))
        ambient = ambient_tenant()
        if ambient is not None and contains:
            header["tenant"] = ambient.decode("utf-8", "surrogateescape")
        if headers and isinstance(headers.get(HEADER), Mapping):
            header.update(headers[HEADER])
        if any(each in options for each in _OURS):
            priority = options.get("priority")
            call = take_call(options, _OURS)
            found = Effective(
                call.get("tenant", b""), call.get("cost", 1.0), 0, call.get("deadline")
            )
            written = found.header(int(time.time() * 1000) + self.tq.producers.clock_offset)
            header.update({each: written[each] for each in call})
            if type(priority) is int and 0 <= priority <= 255:
                header["priority"] = priority
        return header

    # --- details of a scheduled send -------------------------------------------------------------

    def _check_protocol(self) -> None:
        if not self._protocol_checked:
            amqp = self.app.amqp
            if amqp.create_task_message == amqp.task_protocols[1]:
                raise UnsupportedTaskError(
                    "task_protocol = 1 has no headers; scheduled tasks need task_protocol = 2"
                )
            self._protocol_checked = True

    def _when(self, countdown: Any, eta: Any) -> tuple[int | None, int | None]:
        """Return the delay in ms, or the due time in ms; like Celery, a countdown wins."""
        if countdown:
            seconds = float(countdown)
            if not -_LONGEST_COUNTDOWN <= seconds <= _LONGEST_COUNTDOWN:
                raise ValueError(f"countdown is out of range: {countdown!r}")
            return (math.ceil(seconds * 1000) if seconds > 0 else None), None
        if not eta:
            return None, None
        if isinstance(eta, str):
            eta = datetime.fromisoformat(eta)
        aware = maybe_make_aware(eta, tz=self.app.timezone)
        return None, max(0, math.ceil(aware.timestamp() * 1000))


class SubmitProducer:
    """Stands in for a kombu producer during one send: submits what Celery publishes."""

    __slots__ = (
        "_publisher", "_real", "_release", "delay", "due", "embedded", "first_stands", "found",
        "generation", "once", "outcome", "parent",
    )  # fmt: skip

    #: Celery asks a producer for its defaults.
    serializer = None

    def __init__(self, publisher: Publisher, found: Effective, real: Any = None) -> None:
        self._publisher = publisher
        self.found = found
        self._real = real
        self._release: Callable[[], None] | None = None
        self.parent: Token | None = None
        self.outcome = Outcome.RETRIED
        self.delay: int | None = None
        self.due: int | None = None
        self.generation = 0
        self.once = False
        self.first_stands = False
        self.embedded: dict[str, Any] | None = None

    def __enter__(self) -> SubmitProducer:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._release is not None:
            self._release()
            self._release = None

    @property
    def connection(self) -> SubmitProducer:
        """Celery enters ``producer.connection._reraise_as_library_errors()`` around a publish."""
        return self

    def _reraise_as_library_errors(self) -> Any:
        return _NO_CONTEXT

    @property
    def channel(self) -> Any:
        """A channel of the real broker: the RPC backend declares its reply queue on it."""
        if self._real is None:
            pool = self._publisher.app.producer_pool
            self._real = pool.acquire(block=True)
            self._release = self._real.release
        return self._real.channel

    def publish(
        self,
        body: Any,
        routing_key: str | None = None,
        delivery_mode: Any = None,
        serializer: str | None = None,
        headers: dict[str, Any] | None = None,
        compression: str | None = None,
        exchange: Any = None,
        declare: Any = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        expiration: float | None = None,
        correlation_id: str | None = None,
        reply_to: Any = None,
        priority: int = 0,
        **_: Any,
    ) -> None:
        """Submit the message; the arguments are those of :meth:`kombu.Producer.publish`."""
        assert headers is not None
        publisher = self._publisher
        queue = publisher._names.find(exchange, routing_key, declare)
        kind, encoding, data = serialization.dumps(body, serializer=serializer)
        task, task_id = headers["task"], headers["id"]
        nesting, retries = headers["replaced_task_nesting"] or 0, headers["retries"] or 0
        said = data
        if self.embedded:
            # The same call later has other absolute deadlines in it; it is the same message.
            said = serialization.dumps((*body[:2], self.embedded), serializer=serializer)[2]
        mark = envelope.digest(task, task_id, nesting, retries, said)
        if compression:
            data, headers["compression"] = compress(data, compression)
        properties: dict[str, Any] = {
            "correlation_id": correlation_id,
            "reply_to": getattr(reply_to, "name", reply_to),
            "priority": priority,
        }
        if expiration is not None:
            properties["expiration"] = str(int(expiration * 1000))
        found = self.found
        at, within = found.deadline or (None, None)
        self._submit(
            Submission(
                TaskKey(task_id, nesting, retries, self.generation),
                queue,
                found.tenant,
                envelope.encode(data, kind, encoding, headers, properties),
                mark,
                found.cost,
                priority,
                at,
                within,
                self.delay,
                self.due,
                self.parent,
                self.outcome,
            )
        )

    def _submit(self, submission: Submission) -> None:
        tq = self._publisher.tq
        try:
            tq.producers.submit(submission, tq.limits, once=self.once)
        except StoreUnavailableError as error:
            raise OperationalError(str(error)) from error
        except DuplicateTaskError:
            if not self.first_stands:
                raise


class _Events:
    """Publishes ``task-sent`` through the real broker, where event receivers listen."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def publish(self, kind: str, fields: Any, producer: object, **options: Any) -> None:
        """Publish one event. A broker that is away costs the event, not the task: it is taken."""
        try:
            with self._app.producer_or_acquire() as real:
                self._app.amqp._event_dispatcher.publish(kind, fields, real, **options)
        except OperationalError:
            logger.warning("task-sent event was not published: the broker is away", exc_info=True)


_NO_CONTEXT = nullcontext()


def _with_header(headers: Mapping[str, Any] | None, header: dict[str, Any]) -> dict[str, Any]:
    """Return a message's headers with ours, and without what belongs to another delivery."""
    if not headers:
        return {HEADER: header}
    merged = {**headers, HEADER: header}
    merged.pop(TOKEN_HEADER, None)
    merged.pop(KEY_HEADER, None)
    return merged


def _without_cost(header: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in header.items() if name != "cost"}


def _generation(request: Any) -> int:
    """Return the requeue generation of the current task; a retry belongs to the same one."""
    try:
        return TaskKey.decode(vars(request)[KEY_HEADER].encode()).generation
    except (KeyError, ValueError, AttributeError):
        return 0
