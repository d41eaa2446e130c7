"""The system of ``docker-compose.yml`` while its containers are killed, paused and stopped.

Each fault happens while a load runs, which has to end as if nothing had been: every task well, none
missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.docker.engine import System, docker
from tests.waiting import wait_until

Way = Callable[[int, str], dict[str, Any]]
Load = Callable[[Way, int, str], Future[dict[str, Any]]]


@pytest.fixture
def load(system: System) -> Iterator[Load]:
    """Start a load that goes on meanwhile; returns when its tasks run."""
    with ThreadPoolExecutor(1) as pool:

        def start(way: Way, seed: int, window: str) -> Future[dict[str, Any]]:
            run = pool.submit(way, seed, window)
            wait_until(lambda: run.done() or system.running(), "tasks run", 60, 0.2)
            return run

        yield start
    system.up("redis", "scheduler", "worker")


def other_leads(system: System, former: str) -> None:
    """Wait until another scheduler leads."""
    wait_until(lambda: system.leader() not in ("", former), "the other one leads", 30, 0.2)


def test_the_leading_container_is_killed(system: System, load: Load) -> None:
    run = load(system.produce, 21, "10s")
    killed = system.leader()
    docker("kill", killed)
    other_leads(system, killed)
    run.result()
    system.assert_nothing_is_left()


def test_the_leading_container_is_paused(system: System, load: Load) -> None:
    """When it goes on it finds that it leads no more, and writes nothing."""
    run = load(system.produce, 22, "10s")
    paused = system.leader()
    docker("pause", paused)
    other_leads(system, paused)
    docker("unpause", paused)
    run.result()
    system.assert_nothing_is_left()
    wait_until(
        lambda: len(system.ask("status")["leader"]["standbys"]) == 1, "it stands by", 30, 0.5
    )


def test_all_workers_are_killed(system: System, load: Load) -> None:
    run = load(system.produce, 23, "10s")
    for each in system.ids("worker"):
        docker("kill", "--signal", "KILL", each)
    system.up("worker")
    run.result()
    system.assert_nothing_is_left()


def test_the_server_is_killed_and_comes_back_with_what_it_had(system: System, load: Load) -> None:
    """Its file has what it acknowledged, for it writes first; only a machine's end costs a second.

    The producer says where it stopped, and the same command goes on there.
    """
    (server,) = system.ids("redis")
    before = system.completed()
    run = load(system.offer, 24, "10s")
    docker("kill", server)
    docker("start", server)
    total = run.result()["total"]
    wait_until(lambda: system.completed() - before == total, "all have ended", 60, 0.5)
    system.assert_nothing_is_left()


def test_both_schedulers_start_at_once(system: System) -> None:
    ids = system.ids("scheduler")
    docker("kill", *ids)
    docker("start", *ids)
    system.produce(25, "5s")
    status = system.ask("status")
    assert any(status["leader"]["owner"].startswith(each[:12]) for each in ids)
    assert len(status["leader"]["standbys"]) == 1
    system.assert_nothing_is_left()
