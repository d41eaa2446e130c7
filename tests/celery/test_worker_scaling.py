"""Pools and queues that change while the worker runs, and processes that are replaced."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

import pytest

from tests.celery.worker_lab import WorkerLab
from tests.waiting import BUSY, wait_until

pytestmark = pytest.mark.slow


def _offers(lab: WorkerLab, field: str) -> list[Any]:
    return sorted(each[field] for each in lab.announced().values())


def _soon(lab: WorkerLab, field: str, value: list[Any]) -> None:
    """Wait at most a second, and what a busy machine adds, for what the workers announce."""
    wait_until(lambda: _offers(lab, field) == value, f"{field} are {value}", 1.0 + BUSY)


def _answered(replies: Any) -> list[str]:
    return [word for reply in replies for answer in reply.values() for word in answer]


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_slots_follow_the_pool(worker_lab, pool):
    """``pool_grow`` and ``pool_shrink`` change what the worker is sent."""
    lab = worker_lab()
    lab.worker(pool, concurrency=2)
    control = lab.app.control
    lab.listening()
    assert _answered(control.pool_grow(3, reply=True, timeout=30, limit=1)) == ["ok"]
    _soon(lab, "slots", [5])
    for _ in range(10):
        lab.send("nap", 0.7)
    wait_until(lambda: lab.counters().get("dispatched:celery", 0) >= 5, "five at a time")
    lab.settled(10)
    for _ in range(4):  # a process that has only just ended its task still counts as busy
        wait_until(
            lambda: _answered(control.pool_shrink(1, reply=True, timeout=30, limit=1)) == ["ok"],
            "shrunk",
        )
    _soon(lab, "slots", [1])
    lab.send("hold")
    rest = lab.send("hold")
    wait_until(lambda: len(lab.runs()) == 11, "one runs")
    time.sleep(0.3)
    assert len(lab.runs()) == 11
    lab.let()
    lab.settled(12)
    assert rest.id in {run["id"] for run in lab.runs()}
    lab.idle()


def test_autoscale_bounds_are_changed_at_run_time(worker_lab):
    """The worker offers its maximum, and grows when that many tasks come."""
    lab = worker_lab()
    lab.worker("prefork", "--autoscale=3,1", concurrency=0)
    _soon(lab, "slots", [3])
    lab.listening()
    assert _answered(lab.app.control.autoscale(6, 2, reply=True, timeout=30, limit=1)) == ["ok"]
    _soon(lab, "slots", [6])
    for _ in range(12):
        lab.send("nap", 1.0)
    wait_until(lambda: len({run["pid"] for run in lab.runs()}) == 6, "six processes work")
    assert _answered(lab.app.control.autoscale(2, 1, reply=True, timeout=30, limit=1)) == ["ok"]
    _soon(lab, "slots", [2])
    lab.ended({"completed": 12})
    assert len(lab.runs()) == 12
    lab.idle()


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_queues_change_within_a_second_and_strand_nothing(worker_lab, pool):
    """``add_consumer`` and ``cancel_consumer`` on one of two workers with different queues.

    What it had fetched from the queue that it leaves is given back, and runs on the other.
    """
    lab = worker_lab(policy="fifo")
    lab.worker(pool, "-n", "first@%h", "-Q", "left,right", concurrency=1)
    lab.worker(pool, "-n", "second@%h", "-X", "celery", "-Q", "left", concurrency=1)
    _soon(lab, "queues", [["left"], ["left", "right"]])
    control = lab.app.control
    lab.listening()
    replies = control.ping(timeout=30, limit=2)
    first = next(name for reply in replies for name in reply if name.startswith("first"))
    one = {"destination": [first], "reply": True, "timeout": 30, "limit": 1}
    assert _answered(control.add_consumer("extra", **one)) == ["ok"]
    _soon(lab, "queues", [["extra", "left", "right"], ["left"]])
    lab.send("nap", 0.0, queue="extra")
    lab.settled(1)
    for _ in range(3):
        lab.send("hold", queue="left")
    wait_until(lambda: len(lab.runs()) == 3, "both are busy")
    assert _answered(control.cancel_consumer("left", **one)) == ["ok"]
    _soon(lab, "queues", [["extra", "right"], ["left"]])
    lab.let()
    for _ in range(5):
        lab.send("nap", 0.1, queue="left")
        lab.send("nap", 0.1, queue="right")
    lab.settled(14)
    pids = {run["id"]: run["pid"] for run in lab.runs()}
    assert len(lab.runs()) == len(pids) == 14, "each ran once"
    for queue in ("left", "right", "extra"):
        lab.idle(queue)


def test_a_queue_that_is_excluded_is_not_read(worker_lab):
    lab = worker_lab(conf={"task_queues": None, "task_create_missing_queues": True})
    lab.worker("threads", "-X", "celery", "-Q", "celery,other")
    _soon(lab, "queues", [["other"]])
    lab.send("nap", 0.0)
    lab.send("nap", 0.0, queue="other")
    lab.settled(1)
    wait_until(lambda: lab.counters().get("pending:celery") == 1, "the other is ranked")
    time.sleep(0.5)
    assert lab.counters()["pending:celery"] == 1


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("limit", "processes"),
    [
        ("--max-tasks-per-child=1", 30),
        ("--max-memory-per-child=1", 30),
        pytest.param("--max-tasks-per-child=1", 2_000, marks=pytest.mark.slow),
    ],
)
def test_processes_that_are_replaced_after_every_task(worker_lab, limit, processes):
    """Each task has a process of its own, forked beside our thread; half of them submit a retry.

    A process that inherits a held lock hangs, and one that uses an inherited connection breaks it
    for others: every task runs once, and the worker keeps no descriptor of any of them.
    """
    lab = worker_lab(lease=10.0)
    worker = lab.worker("prefork", limit, concurrency=4)
    lab.send("nap", 0.0)
    lab.settled(1)
    before = _descriptors(worker.pid)
    for _ in range(processes // 3):
        lab.send("nap", 0.0)
        lab.send("again", 1)
    total = 1 + 3 * (processes // 3)
    lab.settled(total, 60 + processes)
    runs = Counter((run["id"], run.get("retries", 0)) for run in lab.runs())
    assert set(runs.values()) == {1}
    assert len(runs) == total
    assert len({run["pid"] for run in lab.runs()}) == total
    assert worker.alive
    assert _descriptors(worker.pid) <= before + 8
    lab.idle()
