"""Bodies in JSON: kombu's own form by a short way, and whatever an application has instead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from kombu import serialization
from kombu.exceptions import EncodeError
from kombu.utils.json import dumps, loads

from tests.celery.recording import Lab
from tq_celery.envelope import decode, serialize

ARGUMENTS: list[Any] = [
    [],
    ["text", "ä\U0001f600", 1, 1.5, float("inf"), None, True],
    [datetime(2030, 1, 2, tzinfo=UTC), Decimal("1.10"), UUID(int=7), b"\xff"],
    [{"nested": [{"deep": (1, 2)}]}],
]


def lab_with_task() -> tuple[Lab, Any]:
    lab = Lab()

    @lab.tq.task(name="json.task")
    def task(*args: Any) -> None: ...

    return lab, task


@pytest.fixture
def own_json() -> Iterator[None]:
    """An application's own ``json``, which writes times as plain text."""

    def write(body: object) -> str:
        return json.dumps(body, default=lambda value: value.isoformat(), indent=1)

    serialization.register("json", write, json.loads, "application/json", "utf-8")
    try:
        yield
    finally:
        serialization.register("json", dumps, loads, "application/json", "utf-8")


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_the_short_way_writes_what_kombu_writes(arguments: list[Any]) -> None:
    body = (arguments, {"key": arguments}, {"callbacks": None})
    assert serialize(body, "json") == serialization.dumps(body, serializer="json")


def test_what_has_no_json_form_is_said_in_kombus_words() -> None:
    with pytest.raises(EncodeError, match="not JSON serializable"):
        serialize(([object()], {}, {}), "json")


def test_an_own_json_is_used_for_one_call_and_for_many(own_json: None) -> None:
    """Seen to fail for many: they were written as kombu would, and its types read by nobody."""
    lab, task = lab_with_task()
    when = datetime(2030, 1, 2, tzinfo=UTC)
    task.delay(when)
    lab.tq.submit_many([(task, (when,)), (task, (when,))])
    bodies = {decode(each.payload).body for each in lab.taken}
    assert len(bodies) == 1
    assert json.loads(bodies.pop())[0] == ["2030-01-02T00:00:00+00:00"]
