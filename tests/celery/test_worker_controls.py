"""What an operator turns on a running worker, and what Celery's options change, holds here too."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from tests.celery.worker_lab import POOLS
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


def test_processes_that_are_replaced_after_a_few_tasks(worker_lab):
    """With ``--max-tasks-per-child`` a process ends every few tasks; nothing is lost with it."""
    lab = worker_lab()
    lab.worker("prefork", "--max-tasks-per-child", "3", concurrency=2)
    results = [lab.send("add", number, 1) for number in range(60)]
    naps = [lab.send("nap", 0.01) for _ in range(60)]
    assert [each.get(timeout=30) for each in results] == list(range(1, 61))
    lab.settled(120, 30)
    assert lab.outcomes() == {"completed": 120}
    assert len(lab.runs()) == len(naps)
    assert len({run["pid"] for run in lab.runs()}) >= 10
    lab.idle()


def test_a_pool_that_grows_and_shrinks(worker_lab):
    lab = worker_lab()
    lab.worker("prefork", concurrency=1)
    lab.app.control.pool_grow(3, reply=True)
    wait_until(lambda: [a["slots"] for a in lab.announced().values()] == [4], "four slots", 5)
    for _ in range(8):
        lab.send("nap", 0.5)
    wait_until(lambda: lab.counters().get("dispatched:celery", 0) >= 4, "four at a time", 5)
    lab.settled(8)
    lab.app.control.pool_shrink(3, reply=True)
    wait_until(lambda: [a["slots"] for a in lab.announced().values()] == [1], "one slot", 5)
    assert lab.send("add", 1, 1).get(timeout=10) == 2
    lab.idle()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_events_of_a_scheduled_task_are_those_of_any_task(worker_lab, pool):
    lab = worker_lab()
    lab.worker(pool, "-E")
    seen: list[tuple[str, str]] = []

    def capture() -> None:
        with lab.app.connection_for_read() as connection:
            handlers = {"*": lambda event: seen.append((event["type"], event.get("uuid", "")))}
            receivers.append(lab.app.events.Receiver(connection, handlers=handlers))
            with suppress(OSError):
                receivers[0].capture(limit=None, timeout=15, wakeup=True)

    receivers: list[Any] = []
    thread = threading.Thread(target=capture)
    thread.start()
    wait_until(lambda: any(kind == "worker-heartbeat" for kind, _ in seen), "it listens", 10)
    good, bad = lab.send("add", 1, 1), lab.send("fail")
    ends = {("task-succeeded", good.id), ("task-failed", bad.id)}
    try:
        wait_until(lambda: ends <= set(seen), "events", 10)
    finally:
        receivers[0].should_stop = True
        thread.join()
    kinds = [kind for kind, uuid in seen if uuid == good.id and kind != "task-sent"]
    assert kinds == ["task-received", "task-started", "task-succeeded"]


@pytest.mark.parametrize("pool", POOLS)
def test_what_has_not_started_is_given_back_within_a_second_of_a_stop(worker_lab, pool):
    """celery/celery #4354: what was fetched when SIGTERM came waited for the lease."""
    lab = worker_lab(lease=20.0, policy="fifo")
    worker = lab.worker(pool, concurrency=1)
    for _ in range(200):
        lab.send("noop")
    lab.settled(200, 20)  # it reads ahead now
    ids = [lab.send("nap", 3.0).id for _ in range(4)]
    wait_until(lambda: lab.runs(), "the first runs", 10)
    worker.process.terminate()
    stopped = time.monotonic()
    wait_until(
        lambda: (lab.counters().get("pending:celery"), lab.counters().get("dispatched:celery"))
        == (3, 1), "three are back", 5,
    )  # fmt: skip
    assert time.monotonic() - stopped < 1.5  # a second, on a busy machine
    worker.process.wait(15)
    lab.worker(pool, concurrency=1)
    lab.settled(204, 30)
    assert [run["id"] for run in lab.runs()] == ids, "ranked as before, and each once"
    lab.idle()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_failures_are_failures_whatever_acks_them(worker_lab, pool):
    """With ``task_acks_on_failure_or_timeout=False`` Celery rejects what failed; it failed."""
    lab = worker_lab(conf={"task_acks_on_failure_or_timeout": False})
    lab.worker(pool)
    with pytest.raises(ValueError, match="as asked"):
        lab.send("fail").get(timeout=10)
    assert lab.settled(1)[0]["outcome"] == "failed"
    lab.idle()
