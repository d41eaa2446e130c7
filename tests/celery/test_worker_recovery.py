"""Leases, lost processes, lost brokers and lost servers: what runs again, and what must not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from tests.celery.worker_lab import POOLS, ROOT
from tests.waiting import BUSY, wait_until

#: Leases have to run out and processes to start: seconds each.
pytestmark = pytest.mark.slow


def started(lab, count):
    return len(lab.runs()) >= count


@pytest.mark.slow
@pytest.mark.parametrize("pool", POOLS)
def test_a_task_longer_than_four_leases_runs_once(worker_lab, pool):
    """taskiq-python/taskiq-redis #101: recovery looked at idle time, not at the owner."""
    lab = worker_lab(lease=2.0)
    lab.worker(pool)
    lab.worker(pool)
    lab.send("nap", 9.0)
    lab.ended({"completed": 1})
    assert len(lab.runs()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["threads", "solo", "gevent"])
def test_a_task_that_holds_the_interpreter_for_leases_runs_once(worker_lab, pool):
    """Seen to fail without the renewer process: the task then ran in both workers."""
    lab = worker_lab(lease=1.0)
    lab.worker(pool)
    lab.worker(pool)
    lab.send("hog", 5.0)
    lab.settled(1)
    time.sleep(1)
    assert len(lab.runs()) == 1
    assert lab.outcomes() == {"completed": 1}


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["gevent", "eventlet"])
def test_a_greenlet_that_never_yields_runs_once(worker_lab, pool):
    lab = worker_lab(lease=1.0)
    lab.worker(pool)
    lab.worker(pool)
    lab.send("spin", 5.0)
    lab.settled(1)
    assert len(lab.runs()) == 1


@pytest.mark.parametrize("pool", POOLS)
def test_a_killed_workers_task_runs_again_within_two_leases(worker_lab, pool):
    """taskiq-python/taskiq-redis #101, the other half: a dead owner is not waited for."""
    lab = worker_lab(lease=2.0)
    first = lab.worker(pool)
    lab.send("hold")
    wait_until(lambda: len(lab.runs()) == 1, "the task starts")
    second = lab.worker(pool)
    first.kill()
    killed = time.monotonic()
    wait_until(lambda: len(lab.runs()) == 2, "the task starts again")
    assert time.monotonic() - killed < 2 * 2.0 + BUSY
    lab.let()
    lab.ended({"completed": 1})
    assert second.alive
    lab.idle()


def test_a_stopped_worker_lapses_though_its_renewer_lives(worker_lab):
    """A frozen process must not keep its lease; when it wakes, its settlement is refused."""
    lab = worker_lab(lease=1.0)
    first = lab.worker("threads")
    lab.send("hold")
    wait_until(lambda: len(lab.runs()) == 1, "the task starts")
    os.kill(first.pid, signal.SIGSTOP)
    lab.worker("threads")
    wait_until(lambda: len(lab.runs()) == 2, "the task starts again")
    lab.let()
    lab.settled(1)
    os.kill(first.pid, signal.SIGCONT)
    wait_until(lambda: "passed to others" in first.text(), "the stale settlement is noticed")
    assert lab.outcomes()["completed"] == 1
    assert lab.send("add", 1, 1).get(timeout=30) == 2
    lab.idle()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_task_that_kills_its_process_is_buried_after_the_budget(worker_lab, pool):
    """celery/celery #9082: redelivered for ever, and the chord never ended."""
    lab = worker_lab(delivery_budget=3, lease=1.0)
    lab.worker(pool)
    result = lab.send("die")
    if pool == "prefork":
        with pytest.raises(Exception, match="delivery budget spent|dead"):
            result.get(timeout=30)
        assert len(lab.runs()) == 3
    else:
        for _ in range(3):
            lab.workers[-1].process.wait(30)
            lab.worker(pool)
        with pytest.raises(Exception, match="lost|dead|budget"):
            result.get(timeout=30)
        assert len(lab.runs()) == 3
    assert len(lab.dead()) == 1
    assert lab.outcomes()["dead"] == 1
    lab.idle()


@pytest.mark.slow
@pytest.mark.parametrize("cancel", [False, True])
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_lost_broker_strands_and_repeats_nothing(worker_lab, make_server, pool, cancel):
    """Celery forgets what it had reserved and counts on its broker to deliver again."""
    broker = make_server("valkey")
    lab = worker_lab(
        broker=f"redis://127.0.0.1:{broker.port}/0", lease=10.0,
        conf={"worker_cancel_long_running_tasks_on_connection_loss": cancel},
    )  # fmt: skip
    lab.worker(pool, concurrency=2)
    for _ in range(20):
        lab.send("nap", 1.0)
    with broker.client() as client:
        for _ in range(3):
            time.sleep(2.5)
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    lab.settled(20, 60)
    lab.ended({"completed": 20})
    assert len(lab.runs()) == 20
    lab.idle()


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent"])
def test_work_goes_on_within_five_seconds_of_every_server_fault(worker_lab, make_server, pool):
    """celery/celery #10302: alive and healthy to look at, but never polling again."""
    server = make_server("valkey", appendonly=True)
    lab = worker_lab(server=server)
    worker = lab.worker(pool)

    def works(what: str) -> None:
        deadline = time.monotonic() + 6 + BUSY
        while True:
            try:
                result = lab.send("add", 1, 2)
                break
            except Exception:
                assert time.monotonic() < deadline, what
                time.sleep(0.2)
        wait_until(lambda: _state(result) == "SUCCESS", f"a task runs after {what}", 6 + BUSY, 0.05)
        assert worker.alive

    def _state(result) -> str:
        try:
            return result.state
        except Exception as error:
            return repr(error)

    works("the start")
    for _ in range(5):
        with server.client() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.5)
    works("killed connections")
    server.pause()
    time.sleep(5)
    server.resume()
    works("a frozen server")
    for _ in range(3):
        server.kill()
        time.sleep(0.3)
        server.start()
        works("a killed server")


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_rolling_restarts_lose_nothing_and_repeat_nothing(worker_lab, pool):
    """celery/celery #4354: fetched when SIGTERM came, and neither run nor put back."""
    lab = worker_lab(lease=5.0)
    for _ in range(500):
        lab.send("nap", 0.05)
    for _ in range(4):
        worker = lab.worker(pool)
        time.sleep(1)
        asked = time.monotonic()
        worker.terminate()
        assert time.monotonic() - asked < 4 + BUSY
        held = lab.client.xpending(lab.keys.of_queue("exec", "celery"), "workers")
        assert not held["pending"], "all was settled or given back"
    lab.worker(pool)
    lab.settled(500, 60)
    ids = [run["id"] for run in lab.runs()]
    assert len(ids) == len(set(ids)) == 500
    lab.ended({"completed": 500})
    lab.idle()


@pytest.mark.parametrize(("options", "starts"), [([], 2), (["plain"], 3)])
def test_a_job_of_a_dead_process_is_not_started_twice(tmp_path, options, starts):
    """Two processes die while the pool takes in one of them: Celery starts a second body.

    With ``plain`` the pool is Celery's own, and one body more is what our guard is there for.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.celery.hand_on_main", str(tmp_path / "starts"), *options],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == str(starts), done.stderr


def test_a_process_that_is_ending_is_looked_at_again():
    """Its pipes are closed, and it cannot be waited for yet: Celery's pool looks 5 s later.

    Seen to fail with ``plain``, the pool of Celery: without its timer it never looks.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.celery.ending_process_main"],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "lost\n", done.stderr


def test_names_are_unique_and_consumers_do_not_pile_up(worker_lab):
    """redis/redis #9745: dead consumers for ever, or their pending entries lost with them."""
    lab = worker_lab(lease=1.0)
    names = set()
    for turn in range(3):
        worker = lab.worker("threads")
        names |= set(lab.announced())
        lab.send("nap", 3.0)
        wait_until(partial(started, lab, turn + 1), "the task starts")
        worker.kill()
    assert len(names) == 3
    lab.worker("threads")
    lab.settled(3)
    exec_ = lab.keys.of_queue("exec", "celery")
    wait_until(lambda: len(lab.client.xinfo_consumers(exec_, "workers")) == 1, "one is left")
    lab.ended({"completed": 3})
    assert threading.active_count() < 50


def test_a_killed_renewer_is_replaced(worker_lab):
    """Without its renewer a worker would lose its lease to a task that keeps the GIL."""
    lab = worker_lab(lease=1.0)
    worker = lab.worker("threads")

    def renewers() -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    status = (entry / "stat").read_text().rpartition(")")[2].split()
                    command = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if int(status[1]) == worker.pid and b"renewer" in command:
                    found.append(int(entry.name))
        return found

    wait_until(renewers, "the renewer runs")
    (first,) = renewers()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: renewers() not in ([], [first]), "another renewer runs")
    wait_until(lambda: "the renewer process has ended" in worker.text(), "it says so")
