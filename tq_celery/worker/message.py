"""A delivery as the kombu message that Celery's strategies and requests expect."""

from __future__ import annotations

from typing import Any

from kombu.message import Message

from tq_celery import envelope
from tq_celery.store.contract import Delivery

__all__ = ["BadMessage", "StreamMessage", "open_delivery"]


class BadMessage(Exception):
    """The delivery holds nothing that Celery could run; the text says why."""


class StreamMessage(Message):
    """A message whose acknowledgement is not its own: the delivery table settles deliveries."""

    def ack(self, multiple: bool = False) -> None:
        pass

    def ack_log_error(self, logger: Any, errors: Any, multiple: bool = False) -> None:
        pass

    def reject(self, requeue: bool = False) -> None:
        pass

    def reject_log_error(self, logger: Any, errors: Any, requeue: bool = False) -> None:
        pass

    def requeue(self) -> None:
        pass


def open_delivery(delivery: Delivery, accept: frozenset[str]) -> StreamMessage:
    """Return the message in ``delivery``; raises :class:`BadMessage` when there is none.

    The headers carry the delivery's token and key, so that what the task sends knows its parent.
    """
    if not delivery.key:
        raise BadMessage("exec entry cannot be read")
    if delivery.payload is None:
        raise BadMessage("payload is missing")
    try:
        body, content_type, encoding, headers, properties = envelope.decode(delivery.payload)
    except Exception as error:
        raise BadMessage(f"envelope cannot be decoded: {error!r}") from error
    if not isinstance(headers, dict) or not isinstance(properties, dict):
        raise BadMessage("headers or properties are not mappings")
    task, task_id = headers.get("task"), headers.get("id")
    if not isinstance(task, str) or not isinstance(task_id, str):
        raise BadMessage("headers have no task name and id")
    token = delivery.token
    headers["tq_token"] = token.encode()
    headers["tq_key"] = delivery.key.decode(errors="replace")
    origin = properties.get("delivery_info")
    make: Any = StreamMessage
    message: StreamMessage = make(
        body=body,
        delivery_tag=token.entry.decode(),
        content_type=content_type,
        content_encoding=encoding,
        headers=headers,
        properties=properties,
        delivery_info={
            "exchange": "",
            "routing_key": token.queue,
            **(origin if isinstance(origin, dict) else {}),
            "redelivered": delivery.attempts > 0,
        },
        accept=accept,
    )
    return message
