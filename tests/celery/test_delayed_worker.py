"""Delayed tasks and a worker: nothing that is not due reaches it, and all of it can be stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError

from tests.celery.worker_lab import WorkerLab
from tests.servers import ValkeyServer
from tests.waiting import BUSY, wait_until
from tq_celery.store.keys import GROUP
from tq_celery.store.stopping import RedisStopping


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerLab]:
    """A scheduler and a worker with threads, for all tests of this module."""
    with ValkeyServer() as server:
        made = WorkerLab(server, tmp_path_factory.mktemp("lab"))
        try:
            made.worker("threads")
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def stopping(lab: WorkerLab) -> Iterator[RedisStopping]:
    made = RedisStopping.open_stopping(lab.settings)
    yield made
    made.client.close()


def run_of(lab: WorkerLab, task_id: str) -> dict[str, Any]:
    (run,) = [run for run in lab.runs() if run["id"] == task_id]
    return run


def test_a_worker_gets_what_is_due_and_no_eta(lab: WorkerLab) -> None:
    """celery/celery #9849: an ETA in the message makes the worker keep it, and start a timer."""
    began = time.monotonic()
    sent: dict[str, tuple[float, dict[str, Any]]] = {
        "countdown": (1.5, {"countdown": 1.5}),
        "eta": (1.7, {"eta": datetime.now(UTC) + timedelta(seconds=1.7)}),
        "past": (0.0, {"eta": datetime.now(UTC) - timedelta(days=1)}),
        "negative": (0.0, {"countdown": -5}),
        "now": (0.0, {"countdown": 0}),
    }
    results = {
        name: lab.send("attempt", "acme", 0, **options) for name, (_, options) in sent.items()
    }
    assert len(lab.client.zrange(lab.keys.name("delayed"), 0, -1)) == 2
    for name, (wait, _) in sent.items():
        assert results[name].get(timeout=30) == 0
        run = run_of(lab, results[name].id)
        assert run["eta"] is None, name
        assert -0.05 <= run["at"] - began - wait <= 1.0 + BUSY, name


def test_what_expires_before_it_is_due_does_not_run(lab: WorkerLab) -> None:
    result = lab.send("attempt", "acme", 0, countdown=0.6, expires=0.2)
    with pytest.raises(TaskRevokedError):
        result.get(timeout=30)
    assert result.state == "REVOKED"
    assert result.id not in {run["id"] for run in lab.runs()}
    lab.idle()
    records = [r for r in lab.settled(0) if r["id"] == result.id]
    assert [record["outcome"] for record in records] == ["expired"]


def test_a_retry_that_waits_is_listed_and_cancelled_like_any_task(
    lab: WorkerLab, stopping: RedisStopping
) -> None:
    """Retry back-off waits where countdowns wait: in the store, in nobody's memory.

    Nor in a pending-entries list, where recovery looks for lost work (taskiq-python/taskiq-redis
    #101).
    """
    waits = lab.send("attempt", "acme", 0, countdown=600, priority=3)
    tried = lab.send("attempt", "globex", 1, {"countdown": 300})
    wait_until(lambda: tried.state == "RETRY", "it waits for its next try")
    exec_ = lab.keys.of_queue("exec", "celery")
    wait_until(lambda: lab.client.xlen(exec_) == 0, "no delivery is left")
    assert lab.client.xpending(exec_, GROUP)["pending"] == 0
    soonest, latest = stopping.delayed(["celery"], 10)
    assert [soonest.id, latest.id] == [tried.id, waits.id]
    assert (soonest.tenant, latest.tenant) == (b"globex", b"acme")
    assert (soonest.queue, latest.priority) == ("celery", 3)
    assert 290_000 < soonest.due - time.time() * 1000 <= 300_000
    assert stopping.delayed(["other"], 10) == []

    for result in (tried, waits):
        result.revoke()
        with pytest.raises(TaskRevokedError):
            result.get(timeout=30)
    assert stopping.delayed(["celery"], 10) == []
    assert [run["retries"] for run in lab.runs() if run["id"] == tried.id] == [0]
    lab.idle()


def test_what_waits_is_purged(lab: WorkerLab, stopping: RedisStopping) -> None:
    results = [lab.send("attempt", "acme", 0, countdown=600) for _ in range(20)]
    retried = lab.send("attempt", "acme", 1, {"countdown": 600})
    wait_until(lambda: retried.state == "RETRY", "it waits for its next try")
    assert stopping.purge(["celery"]) == 21
    for result in (*results, retried):
        with pytest.raises(TaskRevokedError):
            result.get(timeout=30)
    lab.idle()
