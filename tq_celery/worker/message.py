"""A delivery as the kombu message that Celery's strategies and requests expect."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from kombu.message import Message
from kombu.serialization import registry
from kombu.utils import json as kombu_json

from tq_celery import envelope
from tq_celery.store.contract import Delivery

__all__ = ["BadMessage", "StreamMessage", "open_delivery"]


class BadMessage(Exception):
    """The delivery holds nothing that Celery could run; the text says why."""


_from_json = json.JSONDecoder().decode
#: Marks a value that kombu's JSON wraps, such as a datetime.
_TYPED = "__type__"


class StreamMessage(Message):
    """A message whose acknowledgement is not its own: the delivery table settles deliveries."""

    def _decode(self) -> Any:
        """Decode plain JSON directly: kombu makes a decoder with a Python hook for each message.

        Anything else goes kombu's way: other serialisers, another JSON that the application
        registered, values with a type of their own, content that is not accepted.
        """
        if (
            self.content_type == "application/json"
            and self.content_encoding == "utf-8"
            and self.accept is not None
            and self.content_type in self.accept
            and not self.errors
            and _kombus_json()
        ):
            body = self.body
            text = body.decode() if isinstance(body, bytes) else body
            if _TYPED not in text:
                with contextlib.suppress(ValueError):  # kombu raises its own error for it
                    return _from_json(text)
        decode: Any = super()._decode
        return decode()

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


def _kombus_json() -> bool:
    """Whether JSON is still decoded by kombu's own function."""
    decoder = registry._decoders.get("application/json")
    return getattr(decoder, "decoder", decoder) is kombu_json.loads


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
