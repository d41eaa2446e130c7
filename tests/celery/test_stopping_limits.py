"""How tasks end that are cut short, or end in a way of their own: one settlement, the right word.

Every outcome is read from the results stream, where a second settlement would be a second record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import chord
from celery.exceptions import (
    ChordError,
    NotRegistered,
    Reject,
    SoftTimeLimitExceeded,
    TaskRevokedError,
    TimeLimitExceeded,
    WorkerLostError,
)

from tests.celery.stopping_lab import events
from tests.celery.worker_lab import WorkerLab
from tests.servers import ValkeyServer
from tests.waiting import wait_until
from tq_celery.worker.obituaries import DeadTaskError


@pytest.fixture(scope="module")
def prefork(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerLab]:
    """One prefork worker for the whole module; budget 2, limits of its own only per task."""
    with ValkeyServer() as server:
        lab = WorkerLab(
            server, tmp_path_factory.mktemp("limits"), delivery_budget=2, lease=4.0,
            conf={"tq_routes": {"nobody.*": {}}},
        )  # fmt: skip
        try:
            lab.worker("prefork", "-E")
            yield lab
        finally:
            lab.close()


@pytest.fixture
def outcomes(prefork: WorkerLab) -> Callable[..., list[str]]:
    """Wait until a task has settled, and return its outcomes: one, always."""

    def of(result: Any, timeout: float = 20.0) -> list[str]:
        def settled() -> list[str]:
            return [r["outcome"] for r in records(prefork) if r["id"] == result.id]

        wait_until(settled, "the task settles", timeout)
        return settled()

    return of


def records(lab: WorkerLab) -> list[dict[str, str]]:
    return lab.settled(0)


def noted(lab: WorkerLab, result: Any, kind: str = "start") -> list[dict[str, Any]]:
    return [note for note in lab.runs(kind) if note["id"] == result.id]


def one_note(lab: WorkerLab, result: Any, kind: str) -> dict[str, Any]:
    """Wait for what a signal notes about a task, once; the worker sends it after the result."""
    wait_until(lambda: noted(lab, result, kind), f"the note {kind}")
    (note,) = noted(lab, result, kind)
    return note


def failed_in(seen: list[dict[str, Any]]) -> list[str]:
    return [event["uuid"] for event in tuple(seen) if event["type"] == "task-failed"]


def marks(lab: WorkerLab) -> list[str]:
    return [note["mark"] for note in lab.runs("note")]


# --- time limits ---------------------------------------------------------------------------------


def test_a_hard_limit_ends_the_process_and_fails_the_task_once(prefork, outcomes):
    """Under prefork; errbacks and the failure's signal come once, and nothing runs again."""
    errback = prefork.app.tasks["note"].si(mark="too long")
    result = prefork.app.tasks["hard"].apply_async(link_error=errback)
    with pytest.raises(TimeLimitExceeded):
        result.get(timeout=30)
    assert outcomes(result) == ["failed"]
    wait_until(lambda: marks(prefork), "the errback runs")
    assert prefork.send("add", 1, 1).get(timeout=30) == 2
    assert len(noted(prefork, result)) == 1
    prefork.idle()
    assert marks(prefork) == ["too long"]
    one_note(prefork, result, "failed")


@pytest.mark.slow
def test_limits_of_the_task_of_the_call_and_soft_ones(prefork, outcomes):
    caught, raised = prefork.send("soft"), prefork.send("soft", False)
    called = prefork.send("nap", 10.0, time_limit=1)
    softly = prefork.send("nap", 10.0, soft_time_limit=1)
    assert caught.get(timeout=30) == "caught"
    for result, error in (
        (raised, SoftTimeLimitExceeded), (called, TimeLimitExceeded),
        (softly, SoftTimeLimitExceeded),
    ):  # fmt: skip
        with pytest.raises(error):
            result.get(timeout=30)
        assert outcomes(result) == ["failed"]
    assert outcomes(caught) == ["completed"]
    prefork.idle()


@pytest.mark.slow
def test_a_limit_that_is_not_acknowledged_is_another_delivery(prefork, outcomes):
    """``acks_on_timeout=False``: Celery rejects and requeues; here it counts as a lost delivery."""
    result = prefork.send("hard_again", 1)
    wait_until(lambda: len(noted(prefork, result)) == 2, "it runs again")
    assert outcomes(result) == ["completed"]
    assert [note["redelivered"] for note in noted(prefork, result)] == [False, True]
    prefork.idle()


@pytest.mark.slow
def test_a_limit_that_is_never_acknowledged_ends_with_the_budget(prefork, outcomes):
    result = prefork.send("hard_again", 99)
    assert outcomes(result, 30) == ["dead"]
    assert len(noted(prefork, result)) == 2
    prefork.idle()
    with pytest.raises(DeadTaskError, match="budget"):
        result.get(timeout=30)


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["gevent", "threads"])
def test_limits_are_what_the_pool_makes_of_them(worker_lab, pool):
    """As in Celery: gevent knows the hard limit only, threads neither."""
    lab = worker_lab()
    lab.worker(pool)
    hard, soft = lab.send("hard", 3.0), lab.send("nap", 2.0, soft_time_limit=1)
    assert soft.get(timeout=30) == ""
    if pool == "gevent":
        with pytest.raises(TimeLimitExceeded):
            hard.get(timeout=30)
    else:
        assert hard.get(timeout=30) is None
    by_id = {record["id"]: record["outcome"] for record in lab.settled(2)}
    assert by_id == {hard.id: "failed" if pool == "gevent" else "completed", soft.id: "completed"}
    lab.idle()


@pytest.mark.slow
def test_the_workers_own_limits_hold_for_scheduled_tasks(worker_lab):
    lab = worker_lab()
    lab.worker("prefork", "--time-limit", "1", concurrency=1)
    with pytest.raises(TimeLimitExceeded):
        lab.send("nap", 10.0).get(timeout=30)
    assert lab.send("nap", 1.5, time_limit=10).get(timeout=30) == "", "the call's wins"
    lab.listening()
    assert lab.app.control.time_limit("nap", hard=2.0, reply=True, timeout=30, limit=1)
    started = time.monotonic()
    with pytest.raises(TimeLimitExceeded):
        lab.send("nap", 10.0).get(timeout=30)
    assert time.monotonic() - started > 1.5, "set at run time, it wins over the worker's"
    assert [record["outcome"] for record in lab.settled(3)] == ["failed", "completed", "failed"]
    lab.idle()


# --- rejecting, ignoring, leaving ----------------------------------------------------------------


def test_reject_and_ignore_and_failures_without_an_ack(prefork, outcomes):
    refused, ignored = prefork.send("refuse", False), prefork.send("skip")
    unacked, early = prefork.send("unacked"), prefork.send("early_fail")
    with pytest.raises(Reject):
        refused.get(timeout=30)
    with pytest.raises(ValueError, match="as asked"):
        unacked.get(timeout=30)
    with pytest.raises(ValueError, match="as asked"):
        early.get(timeout=30)
    assert outcomes(refused) == ["rejected"]
    assert outcomes(ignored) == ["ignored"]
    assert outcomes(unacked) == ["failed"], "Celery rejects it without requeueing: it failed"
    assert outcomes(early) == ["completed"], "acknowledged, and so settled, when it started"
    assert ignored.state == "PENDING"
    prefork.idle()


@pytest.mark.slow
def test_requeueing_spends_the_budget_and_ends_as_dead(prefork, outcomes):
    result = prefork.send("refuse", True)
    assert outcomes(result) == ["dead"]
    assert len(noted(prefork, result)) == 2
    prefork.idle()
    with pytest.raises(DeadTaskError):
        result.get(timeout=30)


@pytest.mark.slow
def test_a_task_may_decline_to_be_redelivered_when_its_process_dies(prefork, outcomes):
    """An explicit ``reject_on_worker_lost=False`` is a failure, as in Celery; unset runs again."""
    result = prefork.send("lost_for_good")
    with pytest.raises(WorkerLostError):
        result.get(timeout=30)
    assert outcomes(result) == ["failed"]
    assert len(noted(prefork, result)) == 1
    again = prefork.send("die")
    assert outcomes(again, 30) == ["dead"]
    assert len(noted(prefork, again)) == 2
    prefork.idle()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "word", "starts"),
    [
        ("SystemExit", "dead", 2),
        ("KeyboardInterrupt", "dead", 2),
        ("WorkerShutdown", "dead", 2),
        ("MemoryError", "dead", 2),
    ],
)
def test_what_a_task_raises_to_leave_its_process(prefork, outcomes, what, word, starts):
    result = prefork.send("raises", what)
    assert outcomes(result, 40) == [word]
    assert len(noted(prefork, result)) == starts
    assert prefork.workers[0].alive
    assert prefork.send("add", 1, 1).get(timeout=30) == 2
    prefork.idle()


# --- expires -------------------------------------------------------------------------------------


def test_a_task_past_its_expiry_ends_revoked_without_running(prefork, outcomes):
    """Past at the call, and while it was delayed; the signal comes once and says ``expired``."""
    past = prefork.send("nap", 0.0, expires=datetime.now(UTC) - timedelta(seconds=5))
    delayed = prefork.send("nap", 0.0, countdown=1.2, expires=0.5)
    for result in (past, delayed):
        with pytest.raises(TaskRevokedError, match="expired"):
            result.get(timeout=30)
        assert outcomes(result) == ["expired"]
        assert result.state == "REVOKED"
        assert not noted(prefork, result)
        assert one_note(prefork, result, "revoked")["expired"] is True
    prefork.idle()


@pytest.mark.slow
def test_expiry_while_pending_and_in_a_workers_hands(worker_lab):
    """The queue is paused until it has expired; another waits for the one slot of its worker."""
    lab = worker_lab()
    lab.worker("prefork", concurrency=1)
    long = lab.send("hold")
    wait_until(lambda: lab.runs(), "the slot is taken")
    pending = [lab.send("nap", 0.0, expires=1) for _ in range(5)]
    time.sleep(1.1)  # they have expired
    lab.let()
    for result in pending:
        with pytest.raises(TaskRevokedError):
            result.get(timeout=30)
    by_id = {record["id"]: record["outcome"] for record in lab.settled(6)}
    assert by_id == {long.id: "completed", **{each.id: "expired" for each in pending}}
    assert len(lab.runs()) == 1
    lab.idle()


@pytest.mark.slow
def test_a_retry_keeps_the_expiry_of_its_task(worker_lab):
    lab = worker_lab()
    lab.worker("prefork", concurrency=1)
    result = lab.send("attempt", "acme", 9, {"countdown": 2.5}, expires=4.5)
    with pytest.raises(TaskRevokedError, match="expired"):
        result.get(timeout=30)
    assert [record["outcome"] for record in lab.settled(3)] == ["retried", "retried", "expired"]
    assert len({run["expires"] for run in lab.runs()}) == 1
    lab.idle()


# --- what a worker does not know -----------------------------------------------------------------


@pytest.mark.slow
def test_an_unknown_task_fails_once_and_ends_its_chord(prefork, outcomes):
    """Celery's handler knows no chord and no errback; the obituary does, and writes it alone."""
    app = prefork.app
    note = app.tasks["note"]
    unknown = app.signature("nobody.knows", app=app)
    with events(prefork) as seen:
        result = chord([unknown, app.tasks["add"].s(1, 1)], app=app)(
            note.si(mark="body").on_error(note.si(mark="chord failed"))
        )
        part = result.parent.results[0]
        with pytest.raises(NotRegistered, match="nobody.knows"):
            part.get(timeout=30)
        wait_until(lambda: failed_in(seen), "the event arrives")
        time.sleep(0.7)  # as long as it takes to read an obituary
    assert failed_in(seen) == [part.id]
    with pytest.raises((ChordError, NotRegistered)):
        result.get(timeout=30)
    assert outcomes(part) == ["dead"]
    one_note(prefork, part, "unknown")
    wait_until(lambda: "chord failed" in marks(prefork), "the errback runs")
    prefork.idle()
    assert marks(prefork).count("chord failed") == 1
    assert "body" not in marks(prefork)
    log = prefork.workers[0].text()
    assert log.count("Received unregistered task of type") == 1
