"""mher/flower #473: one true length per queue, whatever the broker and wherever tasks wait."""

from __future__ import annotations

from typing import Any

from tq_celery.flower.lengths import merged


def ours(queue: str = "celery", **counts: int) -> dict[str, Any]:
    states = dict.fromkeys(("submitted", "delayed", "pending", "dispatched", "running"), 0)
    return {"queue": queue, "workers": 2, **states, **counts}


def test_what_waits_is_the_length_and_the_rest_is_apart() -> None:
    """mher/flower #473: 7 delayed, 5 ranked, 3 dispatched, 2 running, beside 4 of the broker's."""
    counts = {"submitted": 1, "delayed": 7, "pending": 5, "dispatched": 3, "running": 2}
    (row,) = merged([{"name": "celery", "messages": 4}], [ours("celery", **counts)])
    assert row == {
        "name": "celery",
        "messages": 10,
        "messages_ready": 10,
        "messages_unacknowledged": 5,
        "consumers": 2,
        "scheduled": {"waiting": 6, "delayed": 7, "in_flight": 5},
    }


def test_what_the_broker_says_of_its_own_messages_is_kept() -> None:
    broker = {"name": "celery", "messages": 9, "messages_ready": 6, "messages_unacknowledged": 3}
    (row,) = merged([{**broker, "consumers": 5, "idle_since": "now"}], [ours(pending=1, running=1)])
    assert (row["messages"], row["messages_ready"], row["messages_unacknowledged"]) == (10, 7, 4)
    assert (row["consumers"], row["idle_since"]) == (5, "now")


def test_queues_of_one_side_only() -> None:
    rows = merged([{"name": "stock", "messages": 3}], [ours("fair", pending=2)])
    assert [(row["name"], row["messages"]) for row in rows] == [("stock", 3), ("fair", 2)]
    assert "scheduled" not in rows[0]


def test_a_broker_that_nothing_is_known_of() -> None:
    assert [row["messages"] for row in merged([], [ours(pending=2)])] == [2]
    assert merged([], []) == []
