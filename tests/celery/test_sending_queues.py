"""However an application names its queues, a scheduled task goes where the stock task goes."""

from __future__ import annotations

from typing import Any

import pytest
from kombu import Exchange, Queue, binding

from tests.celery.recording import Lab, noop
from tq_celery import UnsupportedTaskError

TOPIC = Exchange("media", type="topic")
PLAIN = Queue("celery")
TOPICAL = {"task_default_queue": "topical", "task_default_exchange_type": "topic"}
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("default queue", {"task_default_queue": "main"}, {}),
    ("default of several", {"task_queues": [PLAIN, Queue("b")], "task_default_queue": "b"}, {}),
    ("default topic exchange", TOPICAL, {}),
    ("default exchange", {"task_default_exchange": "ex", "task_default_queue": "main"}, {}),
    ("default routing key", {"task_default_routing_key": "other"}, {}),
    ("missing, as topic", {"task_create_missing_queue_exchange_type": "topic"}, {"queue": "new"}),
    ("with priorities", {"task_queue_max_priority": 10}, {"queue": "ranked"}),
    ("no queue", {}, {"queue": None}),
    ("exchange alone", {}, {"exchange": "celery"}),
    ("nameless exchange", {}, {"exchange": "", "routing_key": "celery"}),
    ("alias", {"task_queues": [PLAIN, Queue("real", alias="short")]}, {"queue": "short"}),
    (
        "bindings",
        {"task_queues": [PLAIN, Queue("multi", bindings=[binding(TOPIC, routing_key="a.*")])]},
        {"exchange": "media", "routing_key": "a.b"},
    ),
    (
        "a queue's own key",
        {"task_queues": [PLAIN, Queue("video", TOPIC, routing_key="video.#")]},
        {"queue": "video", "routing_key": "video.x"},
    ),
    (
        "a mapping",
        {"task_queues": {"celery": {"exchange": "celery"}, "feeds": {
            "exchange": "news", "exchange_type": "topic", "routing_key": "feed.#"}}},
        {"queue": "feeds", "routing_key": "feed.a"},
    ),
]  # fmt: skip


def declared(lab: Lab) -> list[str]:
    """Declare the application's queues, as its workers do; return their names."""
    with lab.app.connection_for_write() as connection:
        for queue in lab.app.amqp.queues.values():
            queue(connection.default_channel).declare()
    return list({queue.name: None for queue in lab.app.amqp.queues.values()})


@pytest.mark.parametrize(("conf", "options"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_queue_is_the_one_that_the_broker_would_choose(
    conf: dict[str, Any], options: dict[str, Any]
) -> None:
    lab = Lab(**conf)
    declared(lab)
    lab.app.task(name="stock", shared=False)(noop).apply_async(**options)
    reached = [name for name in declared(lab) if lab.stock(name)]
    lab.tq.task(name="ours", shared=False)(noop).apply_async(**options)
    assert [lab.taken[-1].queue] == reached


def test_what_a_broker_would_lose_is_an_error() -> None:
    lab = Lab(**TOPICAL)
    lab.app.task(name="stock", shared=False)(noop).apply_async(routing_key="nowhere")
    assert [name for name in declared(lab) if lab.stock(name)] == []
    with pytest.raises(UnsupportedTaskError, match="reaches no queue"):
        lab.tq.task(name="ours", shared=False)(noop).apply_async(routing_key="nowhere")
