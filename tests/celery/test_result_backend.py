"""Whoever waits for a result gets it, whenever it is stored."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest
import redis
from celery import Celery
from celery.result import ResultSet

from tq_celery import TQ


def nothing() -> None: ...


@pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")
@pytest.mark.parametrize("order", ["before", "after"])
def test_results_arrive_all_the_same(server: Any, namespace: str, order: str) -> None:
    """Whoever waits for a result subscribes then, be it there already or not."""
    app = Celery(namespace, broker="memory://", backend=server.url, set_as_current=False)
    tq = TQ(app, server.url)
    result = tq.task(name="t.noop", shared=False)(nothing).delay()
    backend: Any = app.backend
    storing = threading.Timer(
        0.0 if order == "before" else 0.2, backend.store_result, (result.id, 7, "SUCCESS")
    )
    storing.start()
    if order == "before":
        storing.join()
    assert result.get(timeout=30) == 7
    storing.join()
    tq.producers.close()
    backend.result_consumer.stop()
    backend.client.connection_pool.disconnect()


@pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning")
@pytest.mark.parametrize("count", [1, 250])
def test_results_stored_between_the_look_and_the_subscription(
    server: Any, namespace: str, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """A server may serve the connection that looks before the one that subscribed first.

    Seen to hang without the second look: Celery's own backend does.
    """
    app = Celery(namespace, broker="memory://", backend=server.url, set_as_current=False)
    tq = TQ(app, server.url)
    noop = tq.task(name="t.noop", shared=False)(nothing)
    results = [noop.delay() for _ in range(count)]
    backend: Any = app.backend
    held: list[Any] = []
    execute, look = redis.client.PubSub.execute_command, backend.result_consumer.on_wait_for_pending

    def hold_back(pubsub: Any, *command: Any) -> None:
        held.append(partial(execute, pubsub, *command))

    def store_after_the_look(waiting: Any, **options: Any) -> None:
        look(waiting, **options)
        for number, result in enumerate(results):
            backend.store_result(result.id, number, "SUCCESS")
        monkeypatch.undo()
        for send in held:
            send()

    monkeypatch.setattr(redis.client.PubSub, "execute_command", hold_back)
    monkeypatch.setattr(backend.result_consumer, "on_wait_for_pending", store_after_the_look)
    if count == 1:
        assert results[0].get(timeout=30) == 0
    else:
        assert ResultSet(results, app=app).get(timeout=30) == list(range(count))
    tq.producers.close()
    backend.result_consumer.stop()
    backend.client.connection_pool.disconnect()
