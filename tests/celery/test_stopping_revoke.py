"""A revoked task never runs, wherever it is, and whoever is away; its caller hears of it once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest
from celery import Celery, chain, chord, group
from celery.exceptions import ChordError, TaskRevokedError

from tests.celery.stopping_lab import events, left, notes, nothing_left, records
from tests.celery.worker_lab import WorkerLab
from tests.servers import ValkeyServer
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def prefork(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerLab]:
    """One prefork worker for the whole module."""
    with ValkeyServer() as server:
        lab = WorkerLab(server, tmp_path_factory.mktemp("revoke"))
        try:
            lab.worker("prefork", "-E", concurrency=1)
            lab.listening()
            yield lab
        finally:
            lab.close()


def signalled(lab, result, terminated=False):
    """Wait for the signal about a revoked task, which comes after its result, and once."""
    wait_until(partial(notes, lab, result, "revoked"), "the signal comes")
    assert [note["terminated"] for note in notes(lab, result, "revoked")] == [terminated]


def revoked(result, match=None):
    with pytest.raises(TaskRevokedError, match=match):
        result.get(timeout=30)
    assert result.state == "REVOKED"


def test_waiting_tasks_leave_everything_at_once_without_worker_or_scheduler(worker_lab):
    """Submitted and delayed, with nobody there: gone at once; the first worker says so, once."""
    lab = worker_lab(scheduler=False)
    note = lab.app.tasks["note"]
    links = {"link": note.si(mark="callback"), "link_error": note.si(mark="errback")}
    waiting = lab.app.tasks["nap"].apply_async((0.0,), **links)
    delayed = lab.send("nap", 0.0, countdown=3600)
    waiting.revoke()
    lab.app.control.revoke([delayed.id, waiting.id])
    assert {name.partition(":")[0] for name in left(lab)} == {"payload", "obituary"}
    assert lab.counters() == {"accepted:celery": 2, "revoked:celery": 2}
    lab.worker("threads", "-E")
    for result in (waiting, delayed):
        revoked(result, "revoked")
        signalled(lab, result)
        assert records(lab, result) == ["revoked"]
    nothing_left(lab)
    for result in (waiting, delayed):
        (note,) = notes(lab, result, "revoked")
        assert not note["expired"]
    assert not lab.runs()
    assert not lab.runs("note"), "neither callbacks nor errbacks, as in Celery"


def test_a_task_revoked_before_it_is_submitted_is_settled_when_it_is(prefork):
    """By id, also on a worker that heard no broadcast, and the later member of a chain."""
    nap, add = prefork.app.tasks["nap"], prefork.app.tasks["add"]
    prefork.app.tq.stopping.revoke(["not-yet"])  # the store alone
    result = nap.apply_async((0.0,), task_id="not-yet")
    revoked(result)
    assert records(prefork, result) == ["revoked"]

    last = chain(nap.s(0.5), nap.si(0.0).set(task_id="second"), add.si(1, 1)).apply_async()
    last.parent.revoke()
    wait_until(lambda: records(prefork, last.parent), "the member is settled")
    revoked(last.parent)
    with pytest.raises(TaskRevokedError):
        last.get(timeout=30)
    nothing_left(prefork)
    assert records(prefork, last.parent) == ["revoked"]
    assert not notes(prefork, last.parent)
    assert not records(prefork, last)


def test_a_revoked_member_ends_its_chord(prefork):
    """Pending behind a busy slot; the other members run and the body does not."""
    nap, note = prefork.app.tasks["nap"], prefork.app.tasks["note"]
    prefork.send("hold", "chord")
    body = note.si(mark="chord body").on_error(note.si(mark="chord failed"))
    result = chord([nap.s(0.0), nap.s(0.0)])(body)
    member = result.parent.results[1]
    member.revoke()
    prefork.let("chord")
    revoked(member)
    with pytest.raises((ChordError, TaskRevokedError)):
        result.get(timeout=30)
    wait_until(lambda: prefork.runs("note"), "the errback runs")
    nothing_left(prefork)
    assert [note["mark"] for note in prefork.runs("note")] == ["chord failed"]
    assert not notes(prefork, member)
    assert records(prefork, member) == ["revoked"]


@pytest.mark.slow
def test_a_running_task_is_terminated_and_what_a_worker_holds_is_discarded(prefork):
    """``terminate`` signals the process; the event and the signal come once for each task."""
    with events(prefork) as seen:
        running = prefork.send("nap", 30.0)
        wait_until(lambda: notes(prefork, running), "it runs")
        behind = [prefork.send("nap", 0.0) for _ in range(3)]
        group_result = prefork.app.GroupResult("g", behind)
        group_result.revoke()
        prefork.app.control.terminate(running.id, signal="SIGKILL")
        for result in (running, *behind):
            revoked(result)
        nothing_left(prefork)
        wanted = sorted(result.id for result in (running, *behind))
        wait_until(
            lambda: sorted(e["uuid"] for e in seen if e["type"] == "task-revoked") == wanted,
            "one event for each",
        )
    signalled(prefork, running, terminated=True)
    for result in behind:
        signalled(prefork, result)
        assert records(prefork, result) == ["revoked"]
        assert not notes(prefork, result)
    assert records(prefork, running) == ["revoked"]
    assert prefork.send("add", 1, 1).get(timeout=30) == 2


def test_a_sender_without_tq_reaches_tasks_that_no_worker_has(prefork):
    """Flower and other programs only broadcast: the workers that hear it tell the store."""
    stock = Celery("elsewhere", broker=prefork.app.conf.broker_url, set_as_current=False)
    delayed, terminated, stamped = (
        prefork.app.tasks["nap"].s(0.0).stamp(order=number).apply_async(countdown=3600)
        for number in ("one", "two", "three")
    )
    stock.control.revoke(delayed.id)
    # as ``celery control terminate SIGTERM ID`` sends it
    replies = stock.control.broadcast(
        "terminate",
        {"signal": "SIGTERM", "task_id": [terminated.id]},
        reply=True,
        timeout=30,
        limit=1,
    )
    assert list(replies[0].values()) == [{"ok": "terminate: tasks unknown"}]
    replies = stock.control.broadcast(
        "revoke_by_stamped_headers", {"headers": ["order=three"]}, reply=True, timeout=30, limit=1
    )
    assert "flagged as revoked" in str(replies)
    for result in (delayed, terminated, stamped):
        revoked(result)
        wait_until(partial(records, prefork, result), "it is settled")
        assert records(prefork, result) == ["revoked"]
    nothing_left(prefork)
    marks = prefork.client.zrange(prefork.keys.name("revoked"), 0, -1)
    assert {delayed.id.encode(), terminated.id.encode()} <= set(marks)
    stock.close()


@pytest.mark.slow
def test_a_destination_says_who_terminates_and_not_who_forgets(prefork):
    """A scheduled task is no worker's: revoked for one of them, it is revoked for all."""
    delayed, running = prefork.send("nap", 0.0, countdown=3600), prefork.send("nap", 0.7)
    wait_until(partial(notes, prefork, running), "it runs")
    prefork.app.control.revoke([delayed.id, running.id], ["no@body"], terminate=True)
    revoked(delayed)
    assert running.get(timeout=30) == "", "nobody was asked to end it"
    nothing_left(prefork)
    assert records(prefork, running) == ["completed"]


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_a_task_revokes_another(worker_lab, pool):
    """From a pool's process, thread or greenlet, on a connection of its own."""
    lab = worker_lab()
    lab.worker(pool)
    delayed = [lab.send("nap", 0.0, countdown=3600) for _ in range(4)]
    for each in delayed:
        lab.send("revoker", each.id)
    for each in delayed:
        revoked(each)
    nothing_left(lab)
    lab.ended({"completed": 4, "revoked": 4})
    assert not lab.runs()


@pytest.mark.slow
def test_a_task_between_two_tries_is_revoked(prefork):
    """While the retry is delayed, and while the try before it runs."""
    waits = prefork.send("attempt", "acme", 5, {"countdown": 3600})
    wait_until(lambda: records(prefork, waits) == ["retried"], "it waits for its second try")
    waits.revoke()
    revoked(waits)
    assert records(prefork, waits) == ["retried", "revoked"]
    runs = prefork.send("hold_then_retry", "retry")
    wait_until(lambda: notes(prefork, runs), "it runs")
    runs.revoke()
    prefork.let("retry")
    wait_until(lambda: len(records(prefork, runs)) == 2, "both tries are settled")
    assert sorted(records(prefork, runs)) == ["retried", "revoked"], "the second as it is sent"
    assert len(notes(prefork, runs)) == 1
    nothing_left(prefork)


@pytest.mark.slow
def test_a_revocation_outlives_workers_that_never_heard_it(worker_lab):
    """Revoked while no worker runs, or by the store alone; then workers start and restart."""
    lab = worker_lab()
    pending = lab.send("nap", 0.0)
    later = lab.send("nap", 0.0, countdown=600)
    pending.revoke()
    lab.worker("solo").terminate()
    lab.app.control.revoke(later.id)
    lab.worker("solo")
    for result in (pending, later):
        revoked(result)
    late = lab.app.tasks["nap"].apply_async((0.0,), task_id="late")
    assert late.get(timeout=30) == ""
    nothing_left(lab)
    assert [run["id"] for run in lab.runs()] == ["late"]


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_pools_that_cannot_terminate_say_so_and_the_task_ends_by_itself(worker_lab, pool):
    """As in Celery: the command answers with an error, and a task that waits is still revoked."""
    lab = worker_lab()
    lab.worker(pool, concurrency=1)
    running = lab.send("hold")
    wait_until(lambda: lab.runs(), "it runs")
    waiting = lab.send("nap", 0.0)
    if pool == "threads":
        lab.listening()
    ask = {"reply": True, "timeout": 30, "limit": 1} if pool == "threads" else {}
    replies = lab.app.control.terminate([running.id, waiting.id], **ask)
    if pool == "threads":  # solo is busy with the task
        assert "does not implement kill_job" in str(replies)
    lab.let()
    revoked(waiting)
    wait_until(lambda: records(lab, running), "it ends")
    assert records(lab, running) == ["completed"]
    assert len(lab.runs()) == 1
    nothing_left(lab)


@pytest.mark.slow
def test_stamped_headers_reach_waiting_running_and_later_tasks(worker_lab):
    """With no worker, with one that runs, and with one started after the revocation."""
    lab = worker_lab()
    nap = lab.app.tasks["nap"]

    def stamped(customer: str, seconds: float = 0.0, **options):
        return nap.s(seconds).stamp(customer=customer).apply_async(**options)

    waiting, other = stamped("acme"), stamped("globex")
    delayed = stamped("acme", countdown=3600)
    lab.app.control.revoke_by_stamped_headers({"customer": ["acme"]})
    assert lab.counters()["revoked:celery"] == 2
    worker = lab.worker("prefork", concurrency=1)
    later = stamped("acme")
    for result in (waiting, delayed, later):
        revoked(result)
    assert other.get(timeout=30) == ""
    worker.terminate()
    lab.worker("prefork", concurrency=1)
    revoked(stamped("acme"))
    running = stamped("initech", 30.0)
    wait_until(lambda: notes(lab, running), "it runs")
    lab.listening()
    running.revoke_by_stamped_headers({"customer": "initech"}, terminate=True, signal="SIGKILL")
    revoked(running)
    nothing_left(lab)
    assert records(lab, running) == ["revoked"]
    assert {run["id"] for run in lab.runs()} == {other.id, running.id}


@pytest.mark.slow
def test_a_group_of_thousands_is_revoked_in_batches(worker_lab):
    lab = worker_lab()
    nap = lab.app.tasks["nap"]
    result = group(nap.s(0.0) for _ in range(1_200)).apply_async()
    started = time.monotonic()
    result.revoke()
    assert time.monotonic() - started < 10
    assert lab.counters() == {"accepted:celery": 1_200, "revoked:celery": 1_200}
    lab.worker("threads")
    nothing_left(lab)
    assert {each.state for each in result} == {"REVOKED"}
    assert not lab.runs()


@pytest.mark.slow
def test_a_workers_own_memory_of_revocations_is_celerys(worker_lab, tmp_path):
    """``--statedb`` keeps what workers heard; what only the store knew is the store's to forget."""
    lab = worker_lab()
    state = ("--statedb", str(tmp_path / "state"))
    worker = lab.worker("solo", *state)
    lab.app.tq.stopping.revoke(["by-the-store"])
    lab.listening()
    assert lab.app.control.revoke(["one", "two"], reply=True, timeout=30, limit=1)
    revoked(lab.app.tasks["nap"].apply_async((0.0,), task_id="one"))
    worker.terminate()
    lab.client.delete(lab.keys.name("revoked"))
    lab.worker("solo", *state)
    lab.listening()
    (known,) = lab.app.control.inspect(timeout=30, limit=1).revoked().values()
    assert {"one", "two"} <= set(known)
    two = lab.app.tasks["nap"].apply_async((0.0,), task_id="two")
    wait_until(partial(records, lab, two), "the worker's memory decides")
    assert records(lab, two) == ["revoked"]
    assert lab.app.tasks["nap"].apply_async((0.0,), task_id="by-the-store").get(timeout=30) == ""
    nothing_left(lab)
    assert [run["id"] for run in lab.runs()] == ["by-the-store"]


@pytest.mark.slow
def test_a_worker_tells_the_store_when_it_is_back(worker_lab, make_server):
    """A broadcast heard while the namespace's server is frozen is written once it answers."""
    broker = make_server("valkey")
    lab = worker_lab(broker=f"redis://127.0.0.1:{broker.port}/1", publish_timeout=1.0)
    lab.worker("threads")
    lab.listening()
    result = lab.send("nap", 0.0, countdown=3600)
    stock = Celery("elsewhere", broker=lab.app.conf.broker_url, set_as_current=False)
    lab.server.pause()
    stock.control.revoke(result.id)
    time.sleep(2)
    lab.server.resume()
    revoked(result)
    wait_until(partial(records, lab, result), "it is settled")
    nothing_left(lab)
    stock.close()


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_a_green_worker_writes_a_broadcast_to_the_store_too(worker_lab, pool):
    """From a thread of the operating system, where sockets and locks are green ones.

    Seen to fail when nothing that was heard was written.
    """
    lab = worker_lab()
    lab.worker(pool)
    lab.listening()
    result = lab.send("nap", 0.0, countdown=3600)
    stock = Celery("elsewhere", broker=lab.app.conf.broker_url, set_as_current=False)
    stock.control.revoke(result.id)
    revoked(result)
    wait_until(partial(records, lab, result), "it is settled")
    nothing_left(lab)
    stock.close()


@pytest.mark.slow
def test_forgetting_a_result_stops_nothing(prefork):
    result = prefork.send("nap", 0.5)
    result.forget()
    wait_until(lambda: records(prefork, result), "it ends")
    assert records(prefork, result) == ["completed"]
