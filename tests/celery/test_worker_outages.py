"""The scheduler's server answers with errors or is away: the worker lives, waits and resumes.

The broker, the results and the notes are on another server, which nothing happens to.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from tests.celery.worker_lab import Worker, WorkerLab
from tests.waiting import BUSY, Activity, wait_until

pytestmark = pytest.mark.slow

POOLS = ("prefork", "threads", "gevent")
#: Seconds each fault lasts: several leases.
FAULT = 4.0
#: Seconds from the end of a fault to the next run.
RESUMED = 5.0 + BUSY


@contextmanager
def _out_of_memory(server: Any) -> Iterator[None]:
    with server.client() as client:
        client.config_set("maxmemory", 1)
        yield
        client.config_set("maxmemory", 0)


@contextmanager
def _read_only(server: Any) -> Iterator[None]:
    with server.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        yield
        client.execute_command("REPLICAOF", "NO", "ONE")


@contextmanager
def _cannot_save(server: Any) -> Iterator[None]:
    """MISCONF: a background save has failed, because its directory is gone."""
    with server.client() as client:
        client.config_set("save", "3600 1")
        shutil.rmtree(server.data_dir)
        client.set("unsaved", 1)
        client.bgsave()
        wait_until(lambda: client.info()["rdb_last_bgsave_status"] == "err", "the save failed")
        yield
        server.data_dir.mkdir()
        client.config_set("save", "")
        client.config_set("stop-writes-on-bgsave-error", "no")


@contextmanager
def _loading(server: Any) -> Iterator[None]:
    """A restart that takes seconds to load its data, and says so."""
    with server.client() as client:
        client.mset({f"filler-{number}": 1 for number in range(2000)})
        client.save()
    server._config |= {"key-load-delay": "2000", "loading-process-events-interval-bytes": "1024"}
    server.restart()
    yield


@contextmanager
def _resets(server: Any) -> Iterator[None]:
    for _ in range(5):
        with server.client() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.5)
    yield


@contextmanager
def _killed(server: Any) -> Iterator[None]:
    server.kill()
    yield
    server.start()


FAULTS: dict[str, Callable[[Any], Any]] = {
    "OOM": _out_of_memory,
    "READONLY": _read_only,
    "resets": _resets,
    "LOADING": _loading,
    "MISCONF": _cannot_save,
    "away": _killed,
}


def _kinds(text: str) -> Counter[str]:
    """Count the log lines by what they say, without times and numbers."""
    lines = [line for line in text.splitlines() if "WARNING" in line or "ERROR" in line]
    return Counter(re.sub(r"[\d.]+", "#", line.partition("]")[2]) for line in lines)


def _noted(lab: WorkerLab, count: int) -> bool:
    return len(lab.runs("stock")) == count


def _undisturbed(lab: WorkerLab, what: str) -> None:
    """The brokers' side of the workers: all answer, and stock tasks run at once."""
    for _ in range(3):
        started = time.monotonic()
        lab.listening()
        wanted = len(lab.runs("stock")) + len(POOLS)
        for pool in POOLS:
            lab.send("stock_nap", 0.0, queue=f"{pool}-stock")
        wait_until(partial(_noted, lab, wanted), f"stock, {what}")
        assert time.monotonic() - started < 3.0 + BUSY, what
        assert all(worker.alive for worker in lab.workers), what


def _send_again(lab: WorkerLab, ended: float, what: str, **options: Any) -> None:
    """Send a short nap as soon as that is possible."""
    while True:
        try:
            lab.send("nap", 0.0, **options)
            return
        except Exception:
            assert time.monotonic() < ended + RESUMED, what
            time.sleep(0.1)


def _calm(worker: Worker, log: int, cpu: float, lasted: float, what: str) -> None:
    """Neither log nor processor says that somebody tries all the while."""
    kinds = _kinds(worker.text()[log:])
    assert all(count <= lasted + 1 for count in kinds.values()), (what, kinds)
    assert Activity.of(worker.pid).cpu - cpu < 0.3 * lasted, what


def _goes_through(lab: WorkerLab, store: Any, name: str) -> None:
    before = len(lab.runs())
    marks = [(each, len(each.text()), Activity.of(each.pid).cpu) for each in lab.workers]
    for pool in POOLS:
        lab.send("nap", FAULT - 1.0, queue=pool)
    wait_until(lambda: len(lab.runs()) == before + len(POOLS), f"tasks run before {name}")
    begun = time.monotonic()
    with FAULTS[name](store):
        _undisturbed(lab, name)
        time.sleep(max(0.0, begun + FAULT - time.monotonic()))
    ended = time.monotonic()
    for pool in POOLS:
        _send_again(lab, ended, name, queue=pool)
    wait_until(lambda: len(lab.runs()) >= before + 2 * len(POOLS), f"resumed after {name}")
    assert time.monotonic() - ended < RESUMED, name
    for worker, log, cpu in marks:
        _calm(worker, log, cpu, time.monotonic() - begun, name)
    wait_until(lambda: not any("dispatched" in each for each in lab.counters()), "settled")
    assert len(lab.runs()) == before + 2 * len(POOLS), f"nothing runs twice after {name}"


@pytest.mark.timeout(240)
def test_errors_of_the_store_leave_the_rest_of_the_worker_alone(worker_lab, make_server):
    """celery/celery #5716: refused for want of memory, the worker ended; so for MISCONF, LOADING.

    Three workers go through every fault, each with a task that runs through it and is settled
    once, though the fault outlasts the lease. Stock tasks and remote control go on meanwhile, and
    the next tasks run within 5 s. Seen to fail for READONLY when leases were judged by a scheduler
    that could only read.
    """
    store = make_server("valkey", config={"enable-debug-command": "yes"})
    lab = worker_lab(server=make_server("valkey"), store=store, lease=2.0)
    for pool in POOLS:
        lab.worker(pool, "-n", f"{pool}@%h", "-Q", f"{pool},{pool}-stock", concurrency=4)
    for name in FAULTS:
        _goes_through(lab, store, name)
