"""Tasks that are not ours stay as they were: the same bytes on the broker, with and without TQ."""

from __future__ import annotations

import itertools
import tempfile
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, _state, chain, chord, group
from celery._state import _task_stack

from tq_celery import TQ

pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")


@pytest.fixture(params=["valkey", "rabbit"])
def broker(request: pytest.FixtureRequest) -> str:
    """Both brokers that the promise is made for."""
    return request.getfixturevalue(f"{request.param}_server").url


def tasks_of(app: Celery) -> dict[str, Any]:
    @app.task(name="plain.add", rate_limit="9/s", time_limit=30)
    def add(x: int, y: int = 0) -> int:
        return x + y

    @app.task(name="plain.other", bind=True)
    def other(self: Any, *args: int) -> None: ...

    return {"add": add, "other": other}


def calls(app: Celery) -> None:
    """Send in every way that has a path of its own."""
    tasks = tasks_of(app)
    add, other = tasks["add"], tasks["other"]
    at = datetime(2030, 1, 1, tzinfo=UTC)
    add.delay(1, y=2)
    other.delay(3)
    add.apply_async((1,), countdown=50, expires=at, priority=3, headers={"mine": "x"})
    add.apply_async((1,), eta=at, link=add.s(1), link_error=other.si(), shadow="s")
    add.apply_async((1,), queue="third", serializer="json", compression="gzip", retry=False)
    add.apply_async((1,), time_limit=5, ignore_result=True)
    app.send_task("far.away", (1,), {"k": 2}, None, at, None, None, None)
    app.send_task("plain.add", kwargs={"x": 1})
    chain(add.s(1), add.s(2), other.s()).apply_async(priority=2)
    group(add.s(1), add.s(2)).delay()
    chord([add.s(1), add.s(2)], add.s(3)).delay()
    add.starmap([(1, 2)]).delay()
    add.chunks([(1, 2), (3, 4)], 1).apply_async()
    with app.connection_for_write() as connection:
        add.apply_async((1,), connection=connection)
    with app.producer_pool.acquire(block=True) as producer:
        add.apply_async((1,), producer=producer)


QUEUES = ("celery", "other", "third")


def published(
    broker: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *setups: Callable[[Celery], Any]
) -> list[Any]:
    """Return every message that ``calls`` puts on the broker, as the broker has it."""
    app = Celery("same", broker=broker, set_as_current=False)
    app.conf.update(
        timezone="Europe/Berlin",
        task_routes={"plain.other": {"queue": "other"}},
        result_backend=Path(tempfile.mkdtemp(dir=folder)).as_uri(),
    )
    monkeypatch.setattr(app, "now", lambda: datetime(2029, 1, 1, tzinfo=UTC))
    # Celery gives tasks of one application to every later one.
    monkeypatch.setattr(_state, "_on_app_finalizers", set(_state._on_app_finalizers))
    counter = itertools.count()

    def fixed() -> str:
        return str(uuid.UUID(int=next(counter)))

    for module in ("celery.app.base", "celery.app.task", "celery.canvas"):
        monkeypatch.setattr(f"{module}.uuid", fixed)
    monkeypatch.setattr("celery.app.amqp.anon_nodename", lambda: "gen@here")
    monkeypatch.setattr(type(app), "thread_oid", "oid", raising=False)
    for setup in setups:
        setup(app)
    calls(app)
    # The tag counts deliveries; AMQP shows the headers once more among the properties.
    ignored = {"delivery_tag", "application_headers"}
    found = []
    with app.connection_for_read() as connection:
        channel = connection.default_channel
        for queue in QUEUES:
            while (message := channel.basic_get(queue, no_ack=True)) is not None:
                properties = {k: v for k, v in message.properties.items() if k not in ignored}
                info = {k: message.delivery_info[k] for k in ("exchange", "routing_key")}
                found.append(
                    (
                        queue,
                        bytes(message.body)
                        if not isinstance(message.body, str)
                        else message.body.encode(),
                        message.headers,
                        properties,
                        info,
                        message.content_type,
                        message.content_encoding,
                    )
                )
    app.close()
    # A chord sends its parts over two connections, whose order at the broker is nobody's promise.
    return sorted(found, key=lambda each: (each[0], each[2]["id"]))


@pytest.fixture
def attach(server: Any) -> Callable[[Celery], Any]:
    return lambda app: TQ(app, server.url, namespace="untouched")


def test_published_bytes_are_the_same(
    broker: str, tmp_path: Path, attach: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail when a header is added outside a workflow."""
    with monkeypatch.context() as patch:
        stock = published(broker, tmp_path, patch)
    with monkeypatch.context() as patch:
        attached = published(broker, tmp_path, patch, attach)
    assert len(stock) > 15
    for ours, theirs in zip(attached, stock, strict=True):
        assert ours == theirs
    assert "tq" not in repr(attached)


def test_inside_a_scheduled_task_only_one_header_is_new(
    broker: str, tmp_path: Path, attach: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def enter(app: Celery) -> None:
        """Be inside the scheduled task ``parent`` from now on."""
        parent = app.task(name="parent")(lambda_like)._get_current_object()
        parent.push_request(
            id="p", root_id="p", called_directly=False, tq={"tenant": "acme", "priority": 3},
            tq_token="3/1-0/celery", delivery_info={}, _children=[],
        )  # fmt: skip
        _task_stack.push(parent)

    found = []
    for setups in ([enter], [attach, enter]):
        try:
            with monkeypatch.context() as patch:
                found.append(published(broker, tmp_path, patch, *setups))
        finally:
            while _task_stack.top is not None:
                _task_stack.pop()
    stock, attached = found
    assert len(stock) > 15
    for ours, theirs in zip(attached, stock, strict=True):
        headers = dict(ours[2])
        assert headers.pop("tq") == {"tenant": "acme", "priority": 3}
        if headers["task"] == "celery.chord_unlock":
            # It has the chord's body in its arguments, which carries the header on.
            assert headers.pop("argsrepr") != theirs[2].pop("argsrepr")
        assert headers == theirs[2]
        assert ours[3:] == theirs[3:]


def lambda_like() -> None: ...
