"""What a worker offers, and that it never keeps work from those who could start it."""

from __future__ import annotations

import time

import pytest

from tests.waiting import BUSY, wait_until

#: Leases have to run out and processes to start: seconds each.
pytestmark = pytest.mark.slow


def _offers(lab, field):
    return sorted(each[field] for each in lab.announced().values())


def test_overlapping_queues_are_all_served(worker_lab):
    lab = worker_lab()
    lab.worker("threads", "-Q", "left,shared")
    lab.worker("threads", "-Q", "right,shared")
    assert _offers(lab, "queues") == [["left", "shared"], ["right", "shared"]]
    for queue in ("left", "right", "shared"):
        for _ in range(20):
            lab.send("nap", 0.02, queue=queue)
    lab.settled(60)
    assert [lab.outcomes(queue) for queue in ("left", "right", "shared")] == [{"completed": 20}] * 3


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_broker_tasks_take_their_slots(worker_lab, pool):
    lab = worker_lab()
    lab.worker(pool, "--prefetch-multiplier", "1", concurrency=4)
    assert _offers(lab, "slots") == [4]
    for _ in range(2):
        lab.send("stock_hold")
    wait_until(lambda: _offers(lab, "slots") == [2], "two slots are left")
    for _ in range(6):
        lab.send("nap", 0.3)
    while not lab.settled(0)[5:]:
        assert lab.counters().get("dispatched:celery", 0) <= 2
        time.sleep(0.01)
    lab.let()
    wait_until(lambda: _offers(lab, "slots") == [4], "all slots are free again")


def test_an_early_acknowledged_task_keeps_its_slot(worker_lab):
    lab = worker_lab()
    lab.worker("prefork", concurrency=2)
    lab.send("early")
    results = lab.settled(1)
    assert results[0]["outcome"] == "completed"
    time.sleep(3)
    assert len(lab.runs()) == 1


def test_a_killed_workers_slots_vanish_within_its_lease(worker_lab):
    lab = worker_lab(lease=1.0)
    lab.worker("threads")
    lab.workers[0].kill()
    wait_until(lambda: not lab.announced(), "the announcement is gone", 1.0 + BUSY)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_an_urgent_task_waits_behind_no_read_ahead(worker_lab, pool):
    """A worker that was just fast holds a deep read-ahead; slow tasks must not inherit it.

    celery/celery #7633: whatever had been handed out ran before later, more urgent work.
    """
    lab = worker_lab(policy="priority", lease=5.0)
    lab.worker(pool, concurrency=2)
    for _ in range(1500):
        lab.send("noop", priority=5)
    for _ in range(60):
        lab.app.tasks["nap"].apply_async((1.0,), {"mark": "low"}, priority=1)
    wait_until(lambda: len(lab.runs()) >= 2, "slow tasks run")
    lab.app.tasks["nap"].apply_async((0.1,), {"mark": "urgent"}, priority=200)
    sent = time.monotonic()
    wait_until(lambda: any(run["mark"] == "urgent" for run in lab.runs()), "the urgent task starts")
    runs = lab.runs()
    urgent = next(run["at"] for run in runs if run["mark"] == "urgent")
    before = [run for run in runs if run["mark"] == "low" and sent < run["at"] < urgent]
    assert len(before) <= 2 + 2, "what the pool's own line holds, and one start a slot"
