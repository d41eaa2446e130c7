"""Every pool runs scheduled tasks and settles each with the outcome it had."""

from __future__ import annotations

import pytest

from tests.celery.worker_lab import ALL_POOLS
from tests.waiting import BUSY, wait_until

#: Task and arguments, and the outcome it must settle with.
ENDINGS = [
    ("add", (2, 3), "completed"),
    ("fail", (), "failed"),
    ("skip", (), "ignored"),
    ("refuse", (False,), "rejected"),
    ("custom_fail", (), "failed"),
]


@pytest.mark.parametrize(
    "pool",
    [
        "prefork",
        "threads",
        *(pytest.param(p, marks=pytest.mark.slow) for p in ("solo", "gevent", "eventlet")),
    ],
)
def test_each_ending_is_its_own_outcome(worker_lab, pool):
    lab = worker_lab()
    lab.worker(pool)
    sent = {lab.send(name, *args).id: outcome for name, args, outcome in ENDINGS}
    again = lab.send("again", 2)
    swap = lab.send("swap")
    many = [lab.send("noop") for _ in range(50)]

    assert again.get(timeout=30) == "done"
    assert swap.get(timeout=30) == 5
    results = lab.settled(len(ENDINGS) + 3 + 2 + len(many))
    by_id: dict[str, list[str]] = {}
    for record in results:
        by_id.setdefault(record["id"], []).append(record["outcome"])
    assert {task_id: by_id[task_id] for task_id in sent} == {i: [o] for i, o in sent.items()}
    assert by_id[again.id] == ["retried", "retried", "completed"]
    assert sorted(by_id[swap.id]) == ["completed", "replaced"]
    assert all(by_id[task.id] == ["completed"] for task in many)
    assert lab.runs("custom-failure")
    lab.idle()
    for record in results:
        assert 0 < float(record["started"]) <= float(record["finished"])
        # the worker knows the server's clock as well as their round trip is short
        assert float(record["started"]) >= float(record["dispatched"]) - 1000


@pytest.mark.slow
@pytest.mark.parametrize("pool", ALL_POOLS)
def test_a_warm_stop_withdraws_and_leaves_nothing(worker_lab, pool):
    lab = worker_lab()
    worker = lab.worker(pool)
    lab.send("add", 1, 1).get(timeout=30)
    assert worker.terminate() < 5 + BUSY
    assert lab.announced() == {}
    assert lab.client.zcard(lab.keys.name("workers")) == 0
    lab.idle()
    wait_until(
        lambda: lab.client.xinfo_consumers(lab.keys.of_queue("exec", "celery"), "workers") == [],
        "the consumer is gone",
    )


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_leaving_the_interpreter_is_a_lost_delivery(worker_lab, pool):
    """``sys.exit()`` in a task must neither strand the delivery nor end the worker."""
    lab = worker_lab(delivery_budget=2)
    worker = lab.worker(pool)
    lab.send("leave")
    wait_until(lab.dead, "the task is buried")
    assert worker.alive
    assert lab.send("add", 1, 1).get(timeout=30) == 2
