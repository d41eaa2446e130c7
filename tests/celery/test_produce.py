"""``tq produce`` as people run it: with workers, interrupted, killed, and with the server away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_until
from tq_celery.store.keys import Keys

SPACE = "offered"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def server(make_server: Any) -> Any:
    return make_server("valkey", appendonly=True)


@pytest.fixture
def start(server: Any, tmp_path: Path) -> Iterator[Start]:
    """Start a program aimed at the namespace, with what it prints in pipes; all end with it."""
    running: list[subprocess.Popen[str]] = []
    environ = {**os.environ, "TQ_URL": server.url, "TQ_NAMESPACE": SPACE, "C_FORCE_ROOT": "1"}

    def begin(*command: str, quiet: bool = False) -> subprocess.Popen[str]:
        output = subprocess.DEVNULL if quiet else subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=tmp_path, env=environ, text=True, stdout=output,
            stderr=output,
        )  # fmt: skip
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def produce(start: Start) -> Start:
    return lambda *line: start("tq_celery.cli", "produce", *line)


def accepted(server: Any) -> int:
    with server.client() as client:
        return int(client.hget(Keys(SPACE).name("counters"), "accepted:produce") or 0)


def finish(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, (out, err)
    return out, err


def results(server: Any) -> Counter[str]:
    with server.client() as client:
        entries = client.xrange(Keys(SPACE).name("results"))
    return Counter(fields[b"id"].decode() for _, fields in entries)


def deploy(start: Start, server: Any) -> None:
    """Start a scheduler and the worker that the command itself names."""
    start("tq_celery.cli", "scheduler", "--policy", "wfq", quiet=True)
    start("celery", "-A", "tq_celery.produce.app", "worker", "-P", "threads", "-c", "8", quiet=True)
    with server.client() as client:
        wait_until(lambda: client.zcard(Keys(SPACE).name("workers")), "a worker is there")


RUN = ("fixed", "--seconds", "10ms", "--count", "900", "--rate", "200")


@pytest.mark.slow
def test_an_interrupted_run_says_so_and_the_same_command_goes_on(
    server: Any, produce: Start
) -> None:
    process = produce(*RUN)
    wait_until(lambda: accepted(server) > 100, "it submits")
    process.send_signal(signal.SIGINT)
    out, err = finish(process, 130)
    before = accepted(server)
    assert before < 900
    assert f"{900 - before} are left, the same command goes on with them" in out
    assert err.splitlines()[-1] == "tq: stopped by SIGINT"

    out, err = finish(produce(*RUN))
    assert f"run fixed-1 was interrupted: going on at task {before} of 900" in err
    assert f"{900 - before} tasks submitted" in out
    assert accepted(server) == 900
    assert "was submitted before: all 900 tasks" in finish(produce(*RUN), 2)[1]


def test_a_killed_run_goes_on_and_no_task_is_taken_twice(server: Any, produce: Start) -> None:
    """Seen to fail with random ids."""
    process = produce(*RUN)
    wait_until(lambda: accepted(server) > 100, "it submits")
    process.kill()
    process.communicate()
    before = accepted(server)
    document = json.loads(finish(produce(*RUN, "--json"))[0])
    assert document["complete"]
    assert document["continued"] <= before
    assert accepted(server) == 900


@pytest.mark.slow
def test_a_second_producer_of_a_run_is_told_of_the_first(server: Any, produce: Start) -> None:
    slowly = (*RUN[:-1], "20")  # it is at it for as long as the second takes to start
    first = produce(*slowly)
    wait_until(lambda: accepted(server) > 0, "it submits")
    assert f"/{first.pid}) is submitting run fixed-1" in finish(produce(*slowly), 2)[1]
    first.send_signal(signal.SIGINT)
    finish(first, 130)
    assert accepted(server) < 900


@pytest.mark.slow
def test_a_frozen_producer_that_was_overtaken_stops(server: Any, produce: Start) -> None:
    """Both would else submit to the end; what both had is taken once."""
    first = produce(*RUN)
    wait_until(lambda: accepted(server) > 100, "it submits")
    first.send_signal(signal.SIGSTOP)
    with server.client() as client:
        name = Keys(SPACE).name("produced")
        entry = json.loads(client.hget(name, "fixed-1"))
        # as if it had been frozen for long, on another machine
        entry |= {"seen": entry["seen"] - 60_000, "owner": "elsewhere/1"}
        client.hset(name, "fixed-1", json.dumps(entry))
    finish(produce(*RUN, "--at-once"), 2)  # its times are other ones
    second = produce(*RUN)
    wait_until(lambda: json.loads(_entry(server))["owner"] != "elsewhere/1", "it is taken")
    first.send_signal(signal.SIGCONT)
    assert "another producer has taken over run fixed-1" in finish(first, 2)[1]
    finish(second)
    assert accepted(server) == 900


def _entry(server: Any) -> bytes:
    with server.client() as client:
        return bytes(client.hget(Keys(SPACE).name("produced"), "fixed-1"))


@pytest.mark.slow
def test_workers_run_every_task_once_and_waits_are_told_by_tenant(
    server: Any, start: Start, produce: Start
) -> None:
    deploy(start, server)
    line = ("multi_tenant", "--window", "3s", "--load", "1.2", "--slots", "8", "--wait")
    process = produce(*line)
    wait_until(lambda: accepted(server) > 50, "it submits")
    process.kill()
    process.communicate()
    document = json.loads(finish(produce(*line, "--json"))[0])
    total = document["total"]
    assert document["notes"] == []
    assert document["outcomes"] == {"completed": total}
    assert document["unseen"] == 0
    assert {t: w["count"] for t, w in document["waits"]["tenants"].items()} == document["tenants"]
    assert document["waits"]["all"]["max"] >= document["waits"]["all"]["p95"] > 0
    counted = results(server)
    assert counted == {f"multi_tenant-1-{job}": 1 for job in range(total)}

    out, _ = finish(produce("uniform", "--count", "20", "--exec", "cpu", "--at-once", "--wait"))
    assert "20 of 20 have ended: 20 completed" in out
    assert "WAIT OF" in out


@pytest.mark.slow
def test_a_server_that_comes_back_finds_every_task_once(
    server: Any, start: Start, produce: Start
) -> None:
    deploy(start, server)
    process = produce(*RUN)
    wait_until(lambda: accepted(server) > 100, "it submits")
    server.kill()
    out, err = finish(process, 2)
    assert out == ""
    assert "submitting stopped after" in err.splitlines()[-1]
    assert "the same command goes on with the rest" in err.splitlines()[-1]
    server.start()
    time.sleep(0.1)
    document = json.loads(finish(produce(*RUN, "--wait", "--json"))[0])
    assert document["complete"]
    assert document["outcomes"] == {"completed": 900}
    assert accepted(server) == 900
    assert max(results(server).values()) == 1
