"""Tasks that could be scheduled and go to the broker's own queue all the same.

Two settings send them there. ``fraction`` is the share of calls that goes through the scheduler, so
that an application can be moved over, and back, by degrees: an id is always on the same side.
``on_unavailable = "broker"`` takes the broker for a call that the scheduler's server certainly did
not get: it was not reached, or it refused. Where that is not certain the call fails.

What goes there is an ordinary Celery message. It keeps the ``tq`` header, from which the tasks that
it sends inherit, and has a priority as the broker understands it.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from kombu.transport import virtual

from tq_celery import envelope
from tq_celery.logs import Log
from tq_celery.store.contract import Submission

__all__ = ["Counts", "broker_priority", "is_scheduled", "publish"]

log = Log(__name__)

#: The module of the transport whose smallest priority is the most urgent.
_REVERSED = "kombu.transport.redis"
#: Seconds between two log lines about the same thing.
_QUIET = 1.0


def is_scheduled(task_id: str, fraction: float) -> bool:
    """Tell whether the id is in the share that goes through the scheduler; 0 and 1 are exact.

    With a larger fraction the ids of a smaller one stay in.
    """
    if fraction >= 1.0:
        return True
    mark = blake2b(task_id.encode("utf-8", "surrogatepass"), digest_size=7).digest()
    return int.from_bytes(mark, "big") < fraction * 2**56


class Counts:
    """How many tasks this process sent which way, since it started.

    ``fraction``: to the broker because of ``tq_fraction``. ``unavailable``: to the broker because
    the scheduler's server was. Both as ``tq.counts.fraction`` and so on.
    """

    def __init__(self) -> None:
        self.fraction = 0
        self.unavailable = 0
        self._lock = threading.Lock()
        self._said = -_QUIET
        self._unsaid = 0

    def __repr__(self) -> str:
        return f"Counts(fraction={self.fraction}, unavailable={self.unavailable})"

    def add_fraction(self) -> None:
        """Count a task that the fraction sends to the broker."""
        with self._lock:
            self.fraction += 1

    def add_unavailable(self, error: Exception) -> None:
        """Count a task that goes to the broker for an error; logs at most one line a second."""
        with self._lock:
            self.unavailable += 1
            self._unsaid += 1
            now = time.monotonic()
            if now - self._said < _QUIET:
                return
            self._said, unsaid, self._unsaid = now, self._unsaid, 0
        log.warning("tasks went to the broker instead of the scheduler", tasks=unsaid, error=error)


def broker_priority(app: Any, queue: Any, priority: int) -> int:
    """Return the broker's number for a priority of ours (0 to 255, higher is more urgent).

    ``queue`` is its name or itself; None is the application's default queue. Kombu's Redis
    transport has 0 to 9 with 0 the most urgent; on RabbitMQ it is ours, up to what the queue
    allows (``x-max-priority``).
    """
    with app.connection_for_write() as connection:  # it does not connect for this
        transport = connection.transport
    if isinstance(transport, virtual.Transport):
        highest: int = transport.Channel.max_priority
        capped = min(priority, highest)
        own = any(kind.__module__ == _REVERSED for kind in type(transport).__mro__)
        return highest - capped if own else capped
    found = queue or app.amqp.default_queue
    if isinstance(found, str):
        found = app.amqp.queues[found]
    most = found.max_priority or (found.queue_arguments or {}).get("x-max-priority")
    return priority if most is None else min(priority, most)


def publish(app: Any, submission: Submission, *, ranked: bool, producer: Any = None) -> None:
    """Send a submission that was not taken to the broker's queue of the same name.

    ``ranked`` says that somebody gave it a priority; ``producer`` is used when it is given. Raises
    what the broker's client raises.
    """
    message = envelope.decode(submission.payload)
    headers, properties = message.headers, message.properties
    due = submission.due
    if submission.delay is not None:
        due = int(time.time() * 1000) + submission.delay
    if due is not None:
        headers["eta"] = datetime.fromtimestamp(due / 1000, UTC).isoformat()
    priority = properties.pop("priority", None)
    expiration = properties.pop("expiration", None)
    queue = app.amqp.queues[submission.queue]
    if ranked:
        properties["priority"] = broker_priority(app, queue, priority)
    conf = app.conf
    with app.producer_or_acquire(producer) as sender:
        sender.publish(
            message.body,
            exchange="",
            routing_key=queue.name,
            declare=[queue],
            content_type=message.content_type,
            content_encoding=message.content_encoding,
            headers=headers,
            expiration=float(expiration) / 1000 if expiration else None,
            delivery_mode=conf.task_default_delivery_mode,
            retry=conf.task_publish_retry,
            retry_policy=dict(conf.task_publish_retry_policy or {}),
            **{name: value for name, value in properties.items() if value is not None},
        )
