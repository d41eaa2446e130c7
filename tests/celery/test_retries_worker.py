"""Retries through a real worker: states, events, tenants, and what cannot be sent.

One worker serves the tests of this module that leave it as it is.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from billiard.exceptions import WorkerLostError
from celery.exceptions import MaxRetriesExceededError

from tests.celery.worker_lab import WorkerLab
from tests.servers import ValkeyServer
from tests.waiting import wait_until
from tq_celery.store.contract import Limits


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerLab]:
    """A scheduler and a worker with threads, with events on."""
    with ValkeyServer() as server:
        folder = tmp_path_factory.mktemp("lab")
        lab = WorkerLab(server, folder, conf={"task_send_sent_event": True}, delivery_budget=3)
        try:
            lab.worker("threads", "-E")
            yield lab
        finally:
            lab.close()


def tries(lab: WorkerLab, task_id: str) -> list[dict[str, Any]]:
    return [run for run in lab.runs() if run["id"] == task_id]


def records(lab: WorkerLab, task_id: str) -> list[tuple[str, str]]:
    """Return (retries, outcome) of each settled try, in order."""
    return [(r["retries"], r["outcome"]) for r in lab.settled(0) if r["id"] == task_id]


def ended(lab: WorkerLab, task_id: str, *outcomes: str, timeout: float = 20) -> None:
    """Wait until the tries of a task have ended like this."""
    expected = [(str(number), outcome) for number, outcome in enumerate(outcomes)]
    wait_until(lambda: records(lab, task_id) == expected, f"it ends {outcomes}", timeout)


def test_a_retry_keeps_what_the_task_was_sent_with(shared_lab: WorkerLab) -> None:
    """celery/celery #7517; the next try starts no timer in the worker (celery/celery #9849)."""
    lab = shared_lab
    result = lab.send(
        "attempt", "acme", 2, {"countdown": 0.1}, priority=7, headers={"mine": "kept"}, deadline=60,
        time_limit=50, soft_time_limit=40, expires=60, stamped_headers=["audit"], audit="2026",
    )  # fmt: skip
    assert result.get(timeout=30) == 2
    first, second, third = tries(lab, result.id)
    assert [each["retries"] for each in (first, second, third)] == [0, 1, 2]
    for word in ("mine", "limits", "expires", "stamps", "priority", "tq", "eta"):
        assert first[word] == second[word] == third[word], word
    assert (first["mine"], first["priority"], first["eta"]) == ("kept", 7, None)
    assert first["limits"] == [50, 40]
    assert first["tq"]["tenant"] == "acme"
    assert third["at"] - first["at"] >= 0.2
    ended(lab, result.id, "retried", "retried", "completed")


def test_states_and_events_of_a_retry(shared_lab: WorkerLab) -> None:
    """``track_started`` and RETRY are seen between the tries, and every event is sent once."""
    lab = shared_lab
    found: list[dict[str, Any]] = []
    # One subscription from beginning to end: what is sent between two would be lost.
    connection = lab.app.connection_for_read()
    receiver = lab.app.events.Receiver(connection, handlers={"*": found.append})

    def listen() -> None:
        with connection:
            receiver.capture(limit=None, timeout=None, wakeup=False)

    before = lab.client.pubsub_numpat()
    listener = threading.Thread(target=listen)
    listener.start()
    try:
        # kombu subscribes with its first look, after it has said that it is ready
        wait_until(lambda: lab.client.pubsub_numpat() > before, "the subscription")
        result = lab.send("tracked")
        wait_until(lambda: result.state == "RETRY", "RETRY")
        with pytest.raises(KeyError, match="as asked"):
            result.get(timeout=30)
        assert result.state == "FAILURE"
        expected = {
            "task-sent": 2, "task-received": 2, "task-started": 2, "task-retried": 1,
            "task-failed": 1,
        }  # fmt: skip
        mine = lambda: Counter(e["type"] for e in found if e.get("uuid") == result.id)  # noqa: E731
        wait_until(lambda: mine() == expected, f"every event once: {mine()}")
    finally:
        receiver.should_stop = True
        listener.join()
    assert mine() == expected
    ended(lab, result.id, "retried", "failed")


def test_autoretry_with_decorrelated_sleeps(shared_lab: WorkerLab) -> None:
    lab = shared_lab
    result = lab.send("stumble", 3)
    assert result.get(timeout=30) == 3
    runs = tries(lab, result.id)
    slept = [run["slept"] for run in runs]
    assert slept[0] is None
    last = 0.05
    for before, run, sleep in zip(runs, runs[1:], slept[1:], strict=False):
        assert 0.05 <= sleep <= min(0.3, 3 * last)
        assert run["at"] - before["at"] >= sleep
        last = sleep
    ended(lab, result.id, "retried", "retried", "retried", "completed")
    for fails, error, kind in ((9, "KeyError", KeyError), (9, "ZeroDivisionError", Exception)):
        gone = lab.send("stumble", fails, error)
        with pytest.raises(kind):
            gone.get(timeout=30)
        assert len(tries(lab, gone.id)) == (4 if error == "KeyError" else 1)


def test_a_retry_that_does_not_raise(shared_lab: WorkerLab) -> None:
    """With ``throw=False`` this try ends as it ends, and the next one runs as well.

    The result is that of the first: Celery's backends never overwrite a success.
    """
    lab = shared_lab
    result = lab.send("stay", 2)
    ended(lab, result.id, "completed", "completed", "completed")
    assert result.get(timeout=30) == "try 0"
    lab.idle()


def test_one_that_was_acknowledged_early_is_tried_again(shared_lab: WorkerLab) -> None:
    lab = shared_lab
    result = lab.send("early_again", 2)
    assert result.get(timeout=30) == 2
    ended(lab, result.id, "completed", "completed", "completed")


def test_an_early_one_whose_retry_is_refused_fails(shared_lab: WorkerLab) -> None:
    """There is no delivery left to give back: it must not vanish without a word."""
    result = shared_lab.send("early_again", 1, {"priority": 999})
    with pytest.raises(Exception, match="priority: 999"):
        result.get(timeout=30)
    assert result.state == "FAILURE"


def test_what_is_refused_every_time_ends_in_the_dead_letters(shared_lab: WorkerLab) -> None:
    """Each try costs an attempt; after the delivery budget ``get()`` ends, and so does a chord.

    Celery would reject the first. Seen to run for ever when such a refusal cost no attempt.
    """
    lab = shared_lab
    results = [
        lab.send("late_again", 0, {"priority": 999}),
        lab.send("late_again", 0, None, 2_000_000),
    ]
    for result in results:
        with pytest.raises(Exception, match="budget"):
            result.get(timeout=30)
        assert [run["retries"] for run in tries(lab, result.id)] == [0] * 3
    assert {"reason", "payload"} <= {name.decode() for name in lab.dead()[-1]}
    lab.idle()


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_full_namespace_costs_no_attempt(worker_lab: Any, pool: str) -> None:
    """The task runs again until there is room, for longer than its delivery budget would last."""
    lab = worker_lab(max_pending=1, delivery_budget=2)
    lab.worker(pool, concurrency=1)
    lab.send("add", 1, 1, countdown=5)
    again = lab.app.tasks["late_again"].signature((0.0,))
    # sent past the limit, as if there had been room
    vars(lab.app.tq)["limits"] = Limits()
    result = again.apply_async()
    assert result.get(timeout=30) == 1
    runs = tries(lab, result.id)
    assert Counter(run["retries"] for run in runs) == {0: len(runs) - 1, 1: 1}
    assert len(runs) > 4
    ended(lab, result.id, "retried", "completed")
    assert {r["attempts"] for r in lab.settled(3) if r["id"] == result.id} == {"0"}
    lab.idle()


@pytest.mark.slow
@pytest.mark.parametrize("pool, fault", [("threads", "frozen"), ("prefork", "stopped")])
def test_a_server_that_is_away_costs_no_attempt(
    worker_lab: Any, make_server: Any, pool: str, fault: str
) -> None:
    """The retry cannot be published; once the server is back the task runs again, or its retry."""
    scheduling = make_server("valkey", appendonly=True)
    lab = worker_lab(store=scheduling, publish_timeout=1.0, lease=6.0)
    lab.worker(pool)
    result = lab.send("late_again", 1.0)
    wait_until(lambda: tries(lab, result.id), "it starts")
    if fault == "frozen":
        scheduling.pause()
    else:
        scheduling.halt()
    time.sleep(3)
    if fault == "frozen":
        scheduling.resume()
    else:
        scheduling.start()
    assert result.get(timeout=30) == 1
    runs = [run["retries"] for run in tries(lab, result.id)]
    assert runs[-1] == 1
    assert runs.count(1) == 1
    ended(lab, result.id, "retried", "completed")
    assert {record["attempts"] for record in lab.settled(2)} == {"0"}
    assert lab.dead() == []
    lab.idle()


def test_no_tries_left(shared_lab: WorkerLab) -> None:
    result = shared_lab.send("attempt", "acme", 9, {"max_retries": 1})
    with pytest.raises(MaxRetriesExceededError):
        result.get(timeout=30)
    ended(shared_lab, result.id, "retried", "failed")


@pytest.mark.slow
def test_a_task_that_kills_its_process_is_retried_as_often_as_it_may_be(worker_lab: Any) -> None:
    """celery/celery #9082: with ``retry_on_worker_lost`` its ``max_retries`` is what ends it."""
    lab = worker_lab()
    lab.worker("prefork", concurrency=1)
    result = lab.send("lost_again", "acme", priority=5)
    with pytest.raises(WorkerLostError):
        result.get(timeout=30)
    assert [run["retries"] for run in tries(lab, result.id)] == [0, 1, 2]
    ended(lab, result.id, "retried", "retried", "failed")
    assert {(r["tenant"], r["priority"]) for r in lab.settled(3)} == {("acme", "5")}
    lab.idle()
