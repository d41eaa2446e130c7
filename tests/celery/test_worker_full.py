"""A worker whose slots are taken leaves tasks to those who can start them."""

from __future__ import annotations

import pytest

from tests.waiting import wait_until


@pytest.mark.slow
def test_a_read_that_waits_is_withdrawn_when_the_last_slot_is_taken(worker_lab):
    """The read was sent while a slot was free; then a task of the broker took the slot.

    Seen to fail when the read went on: the next task came to the worker that could not start it,
    and was given back after a while.
    """
    lab = worker_lab()
    full = lab.worker("threads", "-Q", "celery,stock", concurrency=1)
    lab.worker("threads", concurrency=1)
    lab.send("stock_hold", queue="stock")
    wait_until(lambda: sorted(a["slots"] for a in lab.announced().values()) == [0, 1], "full")
    for count in range(1, 6):
        lab.send("nap", 0.0)
        lab.settled(count)
    assert "Task nap" not in full.text()


@pytest.mark.parametrize("pool", ["threads", pytest.param("prefork", marks=pytest.mark.slow)])
def test_a_steady_stream_of_broker_tasks_does_not_starve_scheduled_ones(worker_lab, pool):
    """One worker serves both, and its broker queue never runs dry.

    Seen to fail when a full worker offered nothing: the scheduled task waited for all the others.
    """
    lab = worker_lab()
    lab.worker(pool, "-Q", "celery,stock", concurrency=2)
    for _ in range(150):
        lab.send("stock_nap", 0.1, queue="stock")
    wait_until(lambda: [a["slots"] for a in lab.announced().values()] == [0], "full")
    lab.send("nap", 0.0)
    lab.settled(1)
    assert len(lab.runs("stock")) < 140, "it did not wait for all the others"
