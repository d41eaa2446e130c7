"""Purging reaches everything that waits, tells the true number, and says what it could not do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest
from celery.exceptions import TaskRevokedError
from kombu.exceptions import OperationalError

from tests.celery.stopping_lab import left, nothing_left, records
from tests.celery.worker_lab import ROOT, WorkerLab
from tests.servers import ValkeyServer
from tests.waiting import wait_until
from tq_celery.errors import StoreUnavailableError

#: Gives up a broker at once.
QUICK = {"max_retries": 0, "connect_retries_timeout": 0.1}


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[ValkeyServer, ValkeyServer]]:
    """One server for the broker and the results, another for the namespace."""
    with ValkeyServer() as stock, ValkeyServer() as ours:
        yield stock, ours


@pytest.fixture
def lab(servers, tmp_path) -> Iterator[WorkerLab]:
    stock, ours = servers
    lab = WorkerLab(ours, tmp_path, broker=f"redis://127.0.0.1:{stock.port}/1", publish_timeout=1.0)
    stock.client().flushall()
    yield lab
    lab.close()


def celery(lab: WorkerLab, *words: str, answer: str = "") -> subprocess.CompletedProcess[str]:
    """Run Celery's command line on the lab's application."""
    return subprocess.run(
        [sys.executable, "-m", "celery", "-A", "tests.celery.worker_main", *words],
        env={**os.environ, **lab.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT, input=answer,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def fill(lab: WorkerLab) -> int:
    """Put tasks wherever they may wait; returns how many that are."""
    lab.send("hold")
    wait_until(lambda: lab.runs(), "the one slot is taken")
    for number in range(20):
        lab.send("nap", 0.0, countdown=3600 if number % 4 == 0 else None)
    wait_until(lambda: not lab.counters().get("submitted:celery"), "the leader has taken them")
    assert lab.scheduler is not None
    lab.scheduler.stop()
    lab.scheduler.join()
    lab.scheduler = None
    for _ in range(5):
        lab.send("nap", 0.0)  # stays in ingress
    return 25


@pytest.mark.slow
def test_purging_empties_every_structure_and_tells_the_number(lab):
    """Ingress, pending, delayed and unread deliveries; what a worker holds goes on."""
    lab.worker("threads", concurrency=1)
    waiting = fill(lab)
    for _ in range(3):
        lab.app.tasks["stock_nap"].apply_async((0.0,), queue="celery", countdown=0)
    purged = lab.app.control.purge()
    counters = lab.counters()
    assert waiting <= purged <= waiting + 3, "and what the worker has not fetched of the broker's"
    assert counters["revoked:celery"] == waiting
    assert counters["accepted:celery"] == waiting + 1
    assert lab.app.control.discard_all() == 0
    lab.let()
    lab.settled(waiting + 1)
    nothing_left(lab)
    assert len(lab.runs()) == 1


@pytest.mark.slow
def test_celery_purge_counts_both_and_asks_first(lab):
    ids = [lab.send("nap", 0.0, countdown=60 * (number % 2)) for number in range(4)]
    lab.app.tasks["stock_nap"].apply_async((0.0,))
    other = lab.app.tasks["nap"].apply_async((0.0,), queue="other")
    refused = celery(lab, "purge", answer="n\n")
    assert refused.returncode == 1
    assert lab.counters()["accepted:celery"] == 4
    assert "revoked:celery" not in lab.counters()
    done = celery(lab, "purge", "-f")
    assert done.returncode == 0, done.stderr
    assert "Purged 5 messages from 1 known task queue." in done.stdout
    done = celery(lab, "purge", "-f", "-Q", "other,celery", "-X", "celery")
    assert "Purged 1 message from 1 known task queue." in done.stdout
    assert "No messages purged" in celery(lab, "purge", "-f", "-Q", "other").stdout
    assert {name.partition(":")[0] for name in left(lab)} == {"obituary", "payload"}
    lab.worker("solo", "-Q", "celery,other")
    for result in (*ids, other):
        with pytest.raises(TaskRevokedError, match="purged"):
            result.get(timeout=30)
        assert records(lab, result) == ["revoked"]
    nothing_left(lab)


@pytest.mark.slow
def test_tq_cancel_ends_what_runs_and_what_waits(lab):
    """From the shell, with the application: the store is told, and the workers are."""
    lab.worker("prefork", concurrency=1)
    running = lab.send("nap", 60.0)
    wait_until(lambda: lab.runs(), "it runs")
    lab.listening()
    waiting = lab.send("nap", 0.0)
    words = ["tq", "cancel", running.id, waiting.id, "--terminate", "--signal", "SIGKILL", "--json"]
    done = celery(lab, *words)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["ids"] == {running.id: "dispatched", waiting.id: "revoked"}
    assert document["told"]
    for result in (running, waiting):
        with pytest.raises(TaskRevokedError):
            result.get(timeout=30)
    nothing_left(lab)
    assert lab.outcomes() == {"revoked": 2}
    assert len(lab.runs()) == 1


@pytest.mark.slow
def test_a_server_that_is_away_is_said_and_the_brokers_part_is_done(lab, servers):
    """Frozen, not gone: the worst case. The broker's tasks are purged, workers hear the revoke."""
    _, ours = servers
    heard = []
    lab.app.tasks["stock_nap"].apply_async((0.0,))
    with lab.app.connection_for_read() as connection:
        node = lab.app.control.mailbox(connection).Node("listener")
        node.handlers["revoke"] = lambda state, **arguments: heard.append(arguments)
        node.channel = connection.channel()
        mailbox = node.listen()
        with suppress(TimeoutError):
            connection.drain_events(timeout=0.3)  # subscribes
        ours.pause()
        try:
            with pytest.raises(StoreUnavailableError, match="1 tasks of the broker were discarded"):
                lab.app.control.purge()
            with pytest.raises(StoreUnavailableError, match="workers were told.*repeat the call"):
                lab.app.control.revoke("some-id", terminate=True)
            lab.app.tasks["stock_nap"].apply_async((0.0,))
            failed = celery(lab, "purge", "-f")
        finally:
            ours.resume()
        with suppress(TimeoutError):
            while not heard:
                connection.drain_events(timeout=5)
        mailbox.cancel()
    assert [each["task_id"] for each in heard] == ["some-id"]
    assert failed.returncode == 1
    assert "Purged 1 message" in failed.stdout
    assert "scheduled tasks were not all purged" in failed.stderr


def test_a_broker_that_is_away_is_said_and_the_scheduled_task_is_revoked(lab):
    """The broker's own error comes through; what waits in the namespace needs no broker."""
    result = lab.send("nap", 0.0, countdown=3600)
    with lab.app.connection_for_write("redis://127.0.0.1:1//", transport_options=QUICK) as nowhere:
        with pytest.raises(OperationalError):
            lab.app.control.revoke(result.id, connection=nowhere)
        assert lab.counters() == {"accepted:celery": 1, "revoked:celery": 1}
        with pytest.raises((OperationalError, *nowhere.connection_errors)):
            lab.app.control.purge(connection=nowhere)
