"""Endings that do not come from the task's own code: limits, revocations, expiry, obituaries."""

from __future__ import annotations

import pickle
import time

import pytest
from celery import chord, group
from celery.exceptions import TaskRevokedError

from tests.celery.worker_lab import POOLS
from tests.waiting import BUSY, assert_idle, wait_until
from tq_celery import errors


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "gevent", "eventlet"])
def test_a_terminated_task_is_revoked_and_does_not_run_again(worker_lab, pool):
    lab = worker_lab()
    lab.worker(pool)
    result = lab.send("nap", 30.0)
    wait_until(lambda: lab.runs(), "the task starts")
    lab.listening()
    result.revoke(terminate=True, signal="SIGKILL")
    with pytest.raises(TaskRevokedError):
        result.get(timeout=30)
    assert lab.settled(1)[0]["outcome"] == "revoked"
    time.sleep(1)
    assert len(lab.runs()) == 1
    lab.idle()


@pytest.mark.parametrize(
    "pool",
    [
        "prefork",
        *(pytest.param(pool, marks=pytest.mark.slow) for pool in POOLS if pool != "prefork"),
    ],
)
def test_revoked_and_expired_tasks_end_without_a_start(worker_lab, pool):
    lab = worker_lab()
    lab.worker(pool, concurrency=1)
    first = lab.send("hold")
    wait_until(lambda: lab.runs(), "the task starts")
    expired = lab.send("nap", 0.0, expires=1)
    revoked = lab.send("nap", 0.0)
    revoked.revoke()
    time.sleep(1.1)  # it has expired
    lab.let()
    first.get(timeout=30)
    for result in (expired, revoked):
        with pytest.raises(TaskRevokedError):
            result.get(timeout=30)
    outcomes = {record["id"]: record["outcome"] for record in lab.settled(3)}
    assert outcomes[first.id] == "completed"
    assert outcomes[revoked.id] == "revoked"
    assert outcomes[expired.id] == "expired"
    assert len(lab.runs()) == 1


@pytest.mark.slow
def test_an_obituary_ends_chord_and_errbacks_once_without_a_free_slot(worker_lab):
    """celery/celery #9082: the chord of a task that kills its workers never ended."""
    lab = worker_lab(delivery_budget=2, lease=2.0)
    lab.worker("prefork", concurrency=1)
    note, die, add = (lab.app.tasks[name] for name in ("note", "die", "add"))
    body = note.s(mark="body")
    body.link_error(note.si(mark="errback"))
    result = chord([add.s(1, 1), die.s()], body).apply_async()
    wait_until(lambda: len(lab.runs()) == 2, "the task has killed two processes")
    lab.send("hold")  # the one slot is busy from here on
    with pytest.raises(Exception, match="budget|dead"):
        result.get(timeout=30)
    wait_until(lambda: lab.outcomes().get("dead") == 1, "buried")
    wait_until(lambda: not lab.client.xlen(lab.keys.of_queue("obituary", "celery")), "written")
    lab.worker("threads")
    wait_until(lambda: lab.runs("note"), "the errback runs")
    time.sleep(1)
    assert [run["mark"] for run in lab.runs("note")] == ["errback"]


@pytest.mark.parametrize("pool", ["threads", "solo", "prefork"])
@pytest.mark.slow
def test_a_broker_without_an_event_loop(worker_lab, pool):
    """Transports such as memory and filesystem have no asynchronous side that could be joined."""
    lab = worker_lab(broker="memory://")
    worker = lab.worker(pool, concurrency=1)
    started = time.monotonic()
    results = [lab.send("add", number, 1) for number in range(50)]
    assert [result.get(timeout=30) for result in results] == list(range(1, 51))
    assert time.monotonic() - started < 10 + BUSY
    lab.settled(50)
    # Billiard's pool without an event loop takes seconds to join its processes.
    assert worker.terminate() < (10 if pool == "prefork" else 5) + BUSY
    lab.idle()


@pytest.mark.slow
def test_an_idle_worker_costs_next_to_nothing(worker_lab):
    """redis/redis-py #2807: an idle blocking read was cut off and sent again and again."""
    lab = worker_lab(lease=10.0)
    worker = lab.worker("threads")
    lab.send("add", 1, 1).get(timeout=30)
    time.sleep(1)

    connections, log = len(lab.client.client_list()), worker.text()
    assert_idle(worker.pid, 8, wakeups_per_s=60)
    assert worker.text() == log
    assert len(lab.client.client_list()) == connections


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_group_of_retries_and_replacements_settles_exactly(worker_lab, pool):
    lab = worker_lab()
    lab.worker(pool)
    again, swap = lab.app.tasks["again"], lab.app.tasks["swap"]
    result = group([again.s(1) for _ in range(10)] + [swap.s() for _ in range(10)]).apply_async()
    assert result.get(timeout=30) == ["done"] * 10 + [5] * 10
    lab.ended({"retried": 10, "replaced": 10, "completed": 20})
    lab.idle()


@pytest.mark.parametrize(
    "error",
    [
        errors.QueueFullError("queue", "celery", 3),
        errors.DuplicateTaskError("x"),
        errors.PayloadTooLargeError("x", 2, 1),
        errors.StoreUnavailableError("submit", "away"),
        errors.FencedError(1, 2),
        errors.SettingsError("tq_lease", 0, "more"),
        errors.TraceError("a", 1, "b"),
    ],
)
def test_errors_travel_from_a_pool_process(error):
    """An error that cannot be unpickled takes the result of its task with it."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_a_retry_that_the_namespace_refuses_is_not_lost(worker_lab):
    """Celery rejects a task for good when its retry cannot be sent."""
    lab = worker_lab(max_pending=3)
    lab.worker("prefork", concurrency=1)
    again = lab.send("again", 1)
    assert again.get(timeout=30) == "done"
    lab.idle()
