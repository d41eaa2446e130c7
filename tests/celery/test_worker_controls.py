"""What an operator turns on a running worker, and what Celery's options change, holds here too."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from tests.celery.worker_lab import POOLS
from tests.waiting import BUSY, wait_until

pytestmark = pytest.mark.slow


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
    wait_until(lambda: any(kind == "worker-heartbeat" for kind, _ in seen), "it listens")
    good, bad = lab.send("add", 1, 1), lab.send("fail")
    ends = {("task-succeeded", good.id), ("task-failed", bad.id)}
    try:
        wait_until(lambda: ends <= set(seen), "events")
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
    lab.settled(200)  # it reads ahead now
    ids = [lab.send("hold").id for _ in range(4)]
    wait_until(lambda: lab.runs(), "the first runs")
    worker.process.terminate()
    stopped = time.monotonic()
    wait_until(
        lambda: (lab.counters().get("pending:celery"), lab.counters().get("dispatched:celery"))
        == (3, 1), "three are back",
    )  # fmt: skip
    assert time.monotonic() - stopped < 1.0 + BUSY
    lab.let()
    worker.process.wait(30)
    lab.worker(pool, concurrency=1)
    lab.settled(204)
    assert [run["id"] for run in lab.runs()] == ids, "ranked as before, and each once"
    lab.idle()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_failures_are_failures_whatever_acks_them(worker_lab, pool):
    """With ``task_acks_on_failure_or_timeout=False`` Celery rejects what failed; it failed."""
    lab = worker_lab(conf={"task_acks_on_failure_or_timeout": False})
    lab.worker(pool)
    with pytest.raises(ValueError, match="as asked"):
        lab.send("fail").get(timeout=30)
    assert lab.settled(1)[0]["outcome"] == "failed"
    lab.idle()
