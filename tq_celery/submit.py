"""The producer that Celery publishes a scheduled task with: it submits to the namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from kombu.compression import compress
from kombu.exceptions import OperationalError

from tq_celery import detour, envelope
from tq_celery.effective import Effective
from tq_celery.errors import DuplicateTaskError, OptionError, StoreUnavailableError
from tq_celery.logs import Log
from tq_celery.queues import check_queue
from tq_celery.states import Outcome
from tq_celery.store.contract import Submission, Token
from tq_celery.store.record import TaskKey

if TYPE_CHECKING:
    from tq_celery.publish import Publisher

__all__ = ["EventForwarder", "SubmitProducer", "collect"]

log = Log(__name__)

#: Where submissions go instead of the store, inside :func:`collect`.
_collected: ContextVar[list[Submission] | None] = ContextVar("tq_collected", default=None)
_NO_CONTEXT = nullcontext()
_NO_DEADLINE = (None, None)
#: Further message properties that a call may set, and the task finds in its request.
_MORE_PROPERTIES = frozenset(("app_id", "cluster_id", "message_id", "timestamp", "type", "user_id"))


@contextmanager
def collect() -> Iterator[list[Submission]]:
    """Keep what is sent in this block instead of submitting it."""
    built: list[Submission] = []
    token = _collected.set(built)
    try:
        yield built
    finally:
        _collected.reset(token)


class SubmitProducer:
    """Stands in for a kombu producer during one send: submits what Celery publishes."""

    __slots__ = (
        "_publisher", "_real", "_release", "delay", "detours", "due", "embedded", "first_stands",
        "found", "generation", "once", "outcome", "parent", "ranked",
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
        #: Whether a task that the server certainly did not get goes to the broker.
        self.detours = False
        #: Whether somebody gave the task a priority.
        self.ranked = False
        self.embedded: dict[str, Any] | None = None

    def __enter__(self) -> SubmitProducer:
        """Be what ``app.producer_or_acquire(producer)`` hands out."""
        return self

    def __exit__(self, *exc_info: object) -> None: ...

    def release(self) -> None:
        """Give back the broker connection that was borrowed for :attr:`channel`, if any."""
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
        priority: int | None = None,
        **more: Any,
    ) -> None:
        """Submit the message; the arguments are those of :meth:`kombu.Producer.publish`."""
        assert headers is not None
        publisher = self._publisher
        queue = check_queue(publisher.queues.find(exchange, routing_key, declare))
        kind, encoding, data = envelope.serialize(body, serializer)
        task, task_id = headers["task"], headers["id"]
        check_id(task_id)
        nesting = _count(headers, "replaced_task_nesting")
        retries = _count(headers, "retries")
        said = data
        if self.embedded:
            # The same call later has other absolute deadlines in it; it is the same message.
            said = envelope.serialize((*body[:2], self.embedded), serializer)[2]
        mark = envelope.digest(task, task_id, nesting, retries, said)
        if compression:
            data, headers["compression"] = compress(data, compression)
        found = self.found
        if priority is None:  # a stamp of that name took its place
            priority = found.priority
        properties: dict[str, Any] = {
            "correlation_id": correlation_id,
            "reply_to": getattr(reply_to, "name", reply_to),
            "priority": priority,
        }
        if expiration is not None:
            properties["expiration"] = str(int(expiration * 1000))
        for name in _MORE_PROPERTIES.intersection(more):
            properties[name] = more[name]
        at, within = found.deadline or _NO_DEADLINE
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
        collected = _collected.get()
        if collected is not None:
            collected.append(submission)
            return
        tq = self._publisher.tq
        try:
            tq.producers.submit(submission, tq.limits, once=self.once, hurried=self.detours)
        except StoreUnavailableError as error:
            if not (self.detours and error.undone):
                raise OperationalError(str(error)) from error
            detour.publish(tq.app, submission, ranked=self.ranked)
            tq.counts.add_unavailable(error)
        except DuplicateTaskError:
            if not self.first_stands:
                raise


def check_id(task_id: object) -> None:
    """Refuse what is no id; no worker could read the message."""
    if isinstance(task_id, str):
        try:
            task_id.encode()
        except UnicodeEncodeError:
            pass
        else:
            return
    raise OptionError("task_id", task_id, "text that UTF-8 can hold")


def _count(headers: Any, name: str) -> int:
    """Return a header that becomes a part of the task's key; raises OptionError."""
    value = headers[name] or 0
    if type(value) is not int or value < 0:
        raise OptionError(name, value, "an integer from 0")
    return value


class EventForwarder:
    """Publishes ``task-sent`` through the real broker, where event receivers listen."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def publish(self, kind: str, fields: Any, producer: object, **options: Any) -> None:
        """Publish one event. A broker that is away costs the event, not the task: it is taken."""
        try:
            with self._app.producer_or_acquire() as real:
                self._app.amqp._event_dispatcher.publish(kind, fields, real, **options)
        except OperationalError:
            log.warning("task-sent event was not published: the broker is away", exc_info=True)
