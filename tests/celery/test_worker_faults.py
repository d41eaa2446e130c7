"""Faults of the server under an idle or a busy worker: it reads on, and answers as before."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from tests.waiting import BUSY, assert_idle, wait_until

pytestmark = pytest.mark.slow


def _runs(lab: Any, what: str, seconds: float = 5.0) -> None:
    """Send a task and see it end in time; a sender may have to try again."""
    end = time.monotonic() + seconds + BUSY
    while True:
        try:
            result = lab.send("add", 1, 2)
            break
        except Exception:
            assert time.monotonic() < end, what
            time.sleep(0.1)

    def ended() -> bool:
        try:
            return bool(result.state == "SUCCESS")
        except Exception:
            return False

    wait_until(ended, f"a task runs after {what}", end - time.monotonic(), 0.05)


def _pings(lab: Any) -> Any:
    """Ask for a pong; the caller's own connection may be one that the server has forgotten."""
    with suppress(*lab.app.connection_for_write().recoverable_connection_errors):
        return lab.app.control.ping(timeout=5.0, limit=1)


def _tells(lab: Any) -> None:
    """Listen to the worker's events until a task has been told of from start to end."""
    seen: list[dict[str, Any]] = []
    with lab.app.connection_for_read() as connection:
        receiver = lab.app.events.Receiver(connection, handlers={"*": seen.append})

        def listen() -> None:
            with suppress(OSError):
                receiver.capture(limit=None, timeout=20, wakeup=False)

        listening = threading.Thread(target=listen)
        listening.start()
        try:
            wait_until(lambda: any("heartbeat" in e["type"] for e in seen), "a heartbeat")
            sent = lab.send("add", 1, 2).id
            told = lambda: [e["type"] for e in seen if e.get("uuid") == sent]  # noqa: E731
            wait_until(lambda: told()[-1:] == ["task-succeeded"], "the task's events")
            assert told() == ["task-received", "task-started", "task-succeeded"]
        finally:
            receiver.should_stop = True
            listening.join()


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_connections_closed_under_an_idle_worker(worker_lab, make_server, pool):
    """The server hangs up on whoever is silent for 2 s (celery/celery #10302).

    The broker is elsewhere, so all that is hung up on is ours: the next task runs at once, the log
    stays quiet, an idle worker stays idle, and it says when it last heard from the store.
    """
    server, broker = make_server("redis"), make_server("valkey")
    lab = worker_lab(server=server, broker=f"redis://127.0.0.1:{broker.port}/0", lease=10.0)
    lab.client.config_set("timeout", 2)
    worker = lab.worker(pool)
    _runs(lab, "the start")
    time.sleep(1)
    lines = len(worker.text().splitlines())
    assert_idle(worker.pid, 8, wakeups_per_s=100)
    assert len(worker.text().splitlines()) - lines <= 2, worker.text()[-2000:]
    _runs(lab, "silence", 2.0)
    stats = lab.app.control.inspect(timeout=30, limit=1).stats()
    (found,) = [each["tq"] for each in stats.values()]
    assert found["since_store_answered"] < 10.0, "it renews its lease in that time"
    assert worker.alive


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_remote_control_and_reading_survive_every_fault(worker_lab, make_server, pool):
    """One server is broker and store; it freezes for 10 s, and twice loses all it had.

    celery/celery #10302 and ag2ai/faststream #2611: alive and healthy to look at, but deaf. A task
    runs within 5 s of each return, the worker answers ``ping`` again, and its events arrive.
    """
    server = make_server("redis")
    lab = worker_lab(server=server, lease=3.0)
    worker = lab.worker(pool, "-E")
    _runs(lab, "the start")
    server.pause()
    time.sleep(10)
    server.resume()
    _runs(lab, "a frozen server")
    for _ in range(2):
        server.kill()
        time.sleep(0.5)
        server.start()
        _runs(lab, "a server that came back empty", 6.0)
    wait_until(lambda: _pings(lab), "it answers ping", interval=0.1)
    _tells(lab)
    assert worker.alive
    assert_idle(worker.pid, 4, wakeups_per_s=100)


def _at_rest(lab: Any) -> None:
    """Wait until nothing was noted for half a second."""
    noted, since = -1, time.monotonic()
    while time.monotonic() - since < 0.5:
        if (now := len(lab.runs()) + len(lab.runs("end"))) != noted:
            noted, since = now, time.monotonic()
        time.sleep(0.02)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_rolling_restarts_with_kills_among_them(worker_lab, pool):
    """Stopped every second, each third time by SIGKILL: nothing is lost (celery/celery #4354).

    Only what ran when its worker was killed may have run twice, and a graceful stop spends no
    attempt of anything.
    """
    lab = worker_lab(lease=1.0, delivery_budget=20)
    for _ in range(500):
        lab.send("nap", 0.05)
    excused: set[str] = set()
    for turn in range(1, 7):
        worker = lab.worker(pool)
        time.sleep(1)
        if turn % 3:
            worker.terminate()
            continue
        os.kill(worker.pid, signal.SIGSTOP)
        _at_rest(lab)  # what its children had begun is noted
        ended = {run["id"] for run in lab.runs("end")}
        settled = {record["id"] for record in lab.settled(0)}
        started = {run["id"] for run in lab.runs()}
        excused |= (started - ended) | (ended - settled)
        worker.kill()
    lab.worker(pool)
    lab.settled(500, 60)
    lab.ended({"completed": 500})
    counts: dict[str, int] = {}
    for run in lab.runs():
        counts[run["id"]] = counts.get(run["id"], 0) + 1
    assert len(counts) == 500
    assert {task for task, count in counts.items() if count > 1} <= excused
    spent = {r["id"] for r in lab.settled(500) if int(r["attempts"]) > 0}
    assert len(spent) <= 2 * 20, "a stop must not cost an attempt"
    lab.idle()


def test_a_task_that_is_put_back_for_ever_is_buried(worker_lab):
    """``Reject(requeue=True)`` counts as a lost delivery, with a growing pause before the next.

    celery/celery #9082: it went round for ever, five times in ten seconds.
    """
    lab = worker_lab(delivery_budget=4)
    lab.worker("threads")
    result = lab.send("refuse", True)
    with pytest.raises(Exception, match="budget|dead"):
        result.get(timeout=30)
    at = [run["at"] for run in lab.runs()]
    assert len(at) == 4
    pauses = [later - earlier for earlier, later in pairwise(at)]
    assert all(pause >= 0.09 * 2**loss for loss, pause in enumerate(pauses)), pauses
    (letter,) = lab.dead()
    assert int(letter[b"attempts"]) == 4
    assert letter[b"token"]
    assert letter[b"payload"]
    assert b"budget" in letter[b"reason"]
    assert lab.outcomes() == {"dead": 1}
    lab.idle()
