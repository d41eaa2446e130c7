"""The message as the store keeps it: one JSON object with what a broker message consists of.

======================  =====================================================================
``body``                the serialised ``[args, kwargs, embed]``: text, or base64 of bytes
``content-type``        for example ``application/json``
``content-encoding``    ``utf-8``, or ``binary``
``headers``             Celery's task headers, and ``tq`` (tenant, priority, cost, deadline)
``properties``          ``correlation_id``, ``reply_to``, ``priority``; ``body_encoding`` is
                        ``base64`` when the body is
======================  =====================================================================

Whatever bytes come back from a server, :func:`decode` either returns an :class:`Envelope` that a
Celery request can be built from, or raises :class:`EnvelopeError`, and nothing else.
"""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NamedTuple

from kombu import serialization
from kombu.utils.json import JSONEncoder, object_hook
from kombu.utils.json import dumps as kombu_json

__all__ = [
    "DIGEST_SIZE", "Envelope", "EnvelopeError",
    "decode", "digest", "encode", "is_kombu_json", "serialize", "to_json",
]  # fmt: skip

#: Bytes in a message digest.
DIGEST_SIZE = 16
#: Celery's own range for a message priority, and ours.
_MAX_PRIORITY = 255
#: Marks a value that kombu's JSON wraps (datetime, bytes, Decimal, UUID).
_TYPED = b'"__type__"'

# Built once: ``json.dumps(cls=...)`` makes a new encoder for every message. ``default`` reads
# kombu's registry at each call, so types registered later are honoured.
#: Text of a value, as kombu's JSON writes it.
to_json = json.JSONEncoder(default=JSONEncoder().default).encode
_from_json = json.JSONDecoder().decode
_from_typed_json = json.JSONDecoder(object_hook=object_hook).decode


class EnvelopeError(ValueError):
    """The bytes are not a task message; ``reason`` says why in one short phrase."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Envelope(NamedTuple):
    """A decoded message; ``headers`` holds at least the strings ``id`` and ``task``."""

    body: bytes
    content_type: str
    content_encoding: str
    headers: dict[str, Any]
    properties: dict[str, Any]


def is_kombu_json(serializer: str | None) -> bool:
    """Tell whether a serializer is ``json`` as kombu has it, and not one registered instead."""
    codec = serialization.registry._encoders.get("json") if serializer == "json" else None
    return codec is not None and codec.encoder is kombu_json


def serialize(body: object, serializer: str | None) -> tuple[str, str, str | bytes]:
    """Return content type, encoding and data as :func:`kombu.serialization.dumps` does.

    Kombu makes an encoder for each message, which takes longer than to use it. Raises what it does.
    """
    if is_kombu_json(serializer):
        with suppress(Exception):  # kombu says it in its own words
            return "application/json", "utf-8", to_json(body)
    content: tuple[str, str, str | bytes] = serialization.dumps(body, serializer=serializer)
    return content


def encode(
    body: str | bytes,
    content_type: str,
    content_encoding: str,
    headers: dict[str, Any],
    properties: dict[str, Any],
) -> bytes:
    """Return the stored form of a message whose body is serialised already.

    Raises ``TypeError`` or ``ValueError`` when a header or property has no JSON form.
    """
    if isinstance(body, bytes):
        if content_encoding == "utf-8" and not headers.get("compression"):
            text = body.decode()
        else:
            text = base64.b64encode(body).decode("ascii")
            properties = {**properties, "body_encoding": "base64"}
    else:
        text = body
    return to_json(
        {
            "body": text,
            "content-type": content_type,
            "content-encoding": content_encoding,
            "headers": headers,
            "properties": properties,
        }
    ).encode("ascii")


def decode(raw: bytes) -> Envelope:
    """Return the message in ``raw``; raises :class:`EnvelopeError` for anything else."""
    try:
        text = raw.decode()
        message = _from_typed_json(text) if _TYPED in raw else _from_json(text)
    except Exception as exc:  # hooks registered with kombu, and RecursionError, come through here
        raise EnvelopeError(f"not JSON: {type(exc).__name__}") from exc
    if not isinstance(message, dict):
        raise EnvelopeError("not a JSON object")
    headers = _part(message, "headers", dict)
    properties = _part(message, "properties", dict)
    _check_headers(headers)
    priority = properties.get("priority")
    if priority is not None and (type(priority) is not int or not 0 <= priority <= _MAX_PRIORITY):
        raise EnvelopeError("priority is not an integer from 0 to 255")
    return Envelope(
        _body(_part(message, "body", str), properties.pop("body_encoding", None)),
        _part(message, "content-type", str),
        _part(message, "content-encoding", str),
        headers,
        properties,
    )


def digest(task: str, task_id: str, nesting: int, retries: int, body: str | bytes) -> bytes:
    """Return 16 bytes that two submissions share when they mean the same work.

    Times, priority and reprs are left out: sending the same call again with ``countdown=5`` is
    the same message although its headers differ.
    """
    name = f"{nesting}.{retries}.{task_id}\0{task}\0"
    if isinstance(body, str):
        said = (name + body).encode("utf-8", "surrogatepass")
    else:
        said = name.encode("utf-8", "surrogatepass") + body
    return blake2b(said, digest_size=DIGEST_SIZE).digest()


def _part(message: dict[str, Any], name: str, kind: type) -> Any:
    value = message.get(name)
    if not isinstance(value, kind):
        raise EnvelopeError(f"{name} is missing or has the wrong type")
    return value


def _check_headers(headers: dict[str, Any]) -> None:
    for name in ("id", "task"):
        if not isinstance(headers.get(name), str) or not headers[name]:
            raise EnvelopeError(f"header {name} is missing or not text")
    for name in ("retries", "replaced_task_nesting"):
        value = headers.get(name)
        if value is not None and (type(value) is not int or value < 0):
            raise EnvelopeError(f"header {name} is not a count")


def _body(text: str, encoding: object) -> bytes:
    try:
        if encoding is None:
            return text.encode()
        if encoding == "base64":
            return base64.b64decode(text, validate=True)
    except ValueError as exc:
        raise EnvelopeError("body is not what body_encoding says") from exc
    raise EnvelopeError("body_encoding is unknown")
