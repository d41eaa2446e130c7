"""A stored message survives the round trip, and garbage is refused with one error."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tq_celery.envelope import DIGEST_SIZE, EnvelopeError, decode, digest, encode

HEADERS: dict[str, Any] = {"id": "i-1", "task": "proj.add", "retries": 0}
PROPERTIES: dict[str, Any] = {"correlation_id": "i-1", "priority": 3}


def test_text_body_round_trip() -> None:
    raw = encode('[[1], {}, {"chain": null}]', "application/json", "utf-8", HEADERS, PROPERTIES)
    envelope = decode(raw)
    assert envelope.body == b'[[1], {}, {"chain": null}]'
    assert envelope.headers == HEADERS
    assert envelope.properties == PROPERTIES
    assert (envelope.content_type, envelope.content_encoding) == ("application/json", "utf-8")


@pytest.mark.parametrize("body", [b"\x80\x04\xff\x00", b"", b"plain"])
def test_binary_body_round_trip(body: bytes) -> None:
    envelope = decode(encode(body, "application/x-python-serialize", "binary", HEADERS, {}))
    assert envelope.body == body
    assert "body_encoding" not in envelope.properties


def test_compressed_text_is_kept_as_bytes() -> None:
    headers = {**HEADERS, "compression": "application/x-gzip"}
    assert decode(encode(b"\x1f\x8b\xff", "application/json", "utf-8", headers, {})).body == (
        b"\x1f\x8b\xff"
    )


def test_headers_keep_the_types_kombu_keeps() -> None:
    typed = {"at": datetime(2026, 1, 2, tzinfo=UTC), "u": uuid.UUID(int=7), "b": b"\xff"}
    headers = {**HEADERS, **typed}
    assert decode(encode("[]", "application/json", "utf-8", headers, {})).headers == headers


def _message(**changes: object) -> bytes:
    message = {
        "body": "[]",
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": HEADERS,
        "properties": PROPERTIES,
    }
    return json.dumps({**message, **changes}).encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe",
        b'{"body": "tru',
        b'{"a": 1}',
        b"[]",
        b"null",
        b"[" * 100_000,
        b"1" * 10_000,
        b'{"__type__": "nonsense", "__value__": 1}',
        b'{"__type__": "datetime", "__value__": []}',
        b'{"__type__": [], "__value__": []}',
        _message(headers=[]),
        _message(headers={}),
        _message(headers={"id": 1, "task": "t"}),
        _message(headers={"id": "i", "task": None}),
        _message(headers={**HEADERS, "retries": "many"}),
        _message(headers={**HEADERS, "retries": -1}),
        _message(headers={**HEADERS, "replaced_task_nesting": 1.5}),
        _message(properties=None),
        _message(properties={"priority": "abc"}),
        _message(properties={"priority": 256}),
        _message(properties={"priority": True}),
        _message(body=None),
        _message(body="\udc80"),
        _message(body="###", properties={"body_encoding": "base64"}),
        _message(body="é", properties={"body_encoding": "base64"}),
        _message(properties={"body_encoding": "rot13"}),
        _message(properties={"body_encoding": ["base64"]}),
        _message(**{"content-type": None}),
        _message(**{"content-encoding": 8}),
    ],
)
def test_garbage_is_refused_with_a_reason(raw: bytes) -> None:
    """celery/celery #1113: a message that escapes as another error ends the process."""
    with pytest.raises(EnvelopeError) as caught:
        decode(raw)
    assert caught.value.reason


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_else(raw: bytes) -> None:
    with pytest.raises(EnvelopeError):
        decode(raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "body": JSON,
        "content-type": JSON,
        "content-encoding": JSON,
        "headers": JSON | st.dictionaries(st.sampled_from(["id", "task", "retries"]), JSON),
        "properties": JSON | st.dictionaries(st.sampled_from(["priority", "body_encoding"]), JSON),
    },
)


@given(PARTS)
def test_near_misses_raise_nothing_else(message: dict[str, Any]) -> None:
    try:
        envelope = decode(json.dumps(message).encode())
    except EnvelopeError:
        return
    assert isinstance(envelope.body, bytes)
    assert isinstance(envelope.headers["id"], str)


def test_digest_tells_messages_apart_and_nothing_else() -> None:
    first = digest("t", "i", 0, 0, "[]")
    assert len(first) == DIGEST_SIZE
    assert first == digest("t", "i", 0, 0, b"[]")
    others = [
        digest("u", "i", 0, 0, "[]"),
        digest("t", "j", 0, 0, "[]"),
        digest("t", "i", 1, 0, "[]"),
        digest("t", "i", 0, 1, "[]"),
        digest("t", "i", 0, 0, "[1]"),
    ]
    assert len({first, *others}) == 6
