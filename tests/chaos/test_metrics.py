"""Metrics of a cluster whose processes are killed: exact, from one process, and not ever more."""

from __future__ import annotations

import os
import re
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.chaos.cluster import Cluster, Program
from tests.waiting import wait_until
from tq_celery.embedded import free_port

pytestmark = pytest.mark.slow

#: Tasks of a test.
TASKS = 3_000


def port_of(program: Program) -> int:
    """Return the port that ``auto`` has taken; the log says which."""

    def said() -> list[str]:
        return re.findall(r"metrics are served: .*port=(\d+)", program.log.read_text())

    return int(wait_until(said, "the log names the port")[0])


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def series(port: int) -> dict[str, float]:
    """Scrape; return the series with their values."""
    status, body = get(port, "/metrics")
    assert status == 200, body
    pairs = (line.rpartition(" ") for line in body.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def leading(ports: list[int]) -> int:
    """Wait until one of them leads; returns its port."""
    found = wait_until(
        lambda: [port for port in ports if series(port)["tq_scheduler_is_leader"]], "one leads"
    )
    return found[0]


def settled(port: int, name: str, count: int) -> dict[str, float]:
    """Wait until a series has come to ``count``; returns all of them."""

    def found() -> dict[str, float]:
        seen = series(port)
        return seen if seen.get(name) == count else {}

    return wait_until(found, f"{name} is {count}", last=lambda: series(port).get(name))


def test_counters_are_exact_after_kills(cluster_of: Any, make_server: Any) -> None:
    """A killed leader and a killed worker of eight processes: no count is lost or doubled.

    danihodovic/celery-exporter #157: with counters in the pool's processes one of them answers, and
    a queue's gauges linger in whoever led last.
    """
    cluster: Cluster = cluster_of(
        make_server("redis"), lease=2.0, metrics_port="auto", delivery_budget=50
    )
    schedulers = [cluster.scheduler(), cluster.scheduler()]
    ports = [port_of(program) for program in schedulers]
    workers = [cluster.worker("prefork", 8), cluster.worker("threads", 4)]
    cluster.send_many("noop", TASKS, tenant=lambda number: f"tenant {number % 40}")
    wait_until(lambda: cluster.settled_beyond(TASKS // 10), "some are settled", 60)
    before = series(leading(ports))

    workers[0].kill()
    leader = cluster.leader()
    leader.kill()
    ports.remove(port_of(leader))
    cluster.worker("prefork", 8)
    leading(ports)
    cluster.assert_clean()

    after = settled(
        leading(ports), 'tq_settled_tasks_total{outcome="completed",queue="celery"}', TASKS
    )
    records = len(cluster.results())
    assert after['tq_settled_tasks_total{outcome="completed",queue="celery"}'] == records == TASKS
    assert after['tq_accepted_tasks_total{queue="celery"}'] == TASKS
    for state in ("submitted", "delayed", "pending", "dispatched", "running", "missing"):
        assert after[f'tq_{state}_tasks{{queue="celery"}}'] == 0
    assert sum(after[name] for name in after if name.startswith("tq_tenant_in_flight")) == 0
    assert after["tq_leader_epoch"] > before["tq_leader_epoch"]
    # the name of no process is in any series
    assert not [name for name in after if socket.gethostname() in name]

    standby = cluster.scheduler()
    seen = series(port_of(standby))
    assert get(port_of(standby), "/readyz") == (200, "ready: standby\n")
    assert not [name for name in seen if name.startswith(("tq_accepted", "tq_tenant", "tq_slots"))]


def test_a_worker_tells_of_its_own_tasks_alone(cluster_of: Any, make_server: Any) -> None:
    """A prefork pool is one target, and when it is killed its port is free at once."""
    cluster: Cluster = cluster_of(make_server("redis"), lease=2.0)
    cluster.scheduler()
    cluster.send_many("noop", 200)
    port = free_port()
    cluster.environ["TQ_METRICS_PORT"] = str(port)
    worker = cluster.worker("prefork", 8)
    cluster.drain()

    # the worker counts what it has settled when the store has answered
    seen = settled(port, 'tq_task_latency_seconds_count{queue="celery"}', 200)
    for name in ("tq_queue_wait_seconds", "tq_execution_seconds", "tq_task_latency_seconds"):
        assert seen[f'{name}_count{{queue="celery"}}'] == 200
    wait, run, whole = (
        seen[f'tq_{name}_seconds_sum{{queue="celery"}}']
        for name in ("queue_wait", "execution", "task_latency")
    )
    assert whole == pytest.approx(wait + run, abs=0.01)
    assert get(port, "/readyz") == (200, "ready: 8 slots\n")
    assert seen['tq_script_seconds_count{script="complete"}'] > 0

    second = cluster.worker("prefork", 2, wait=False)
    assert second.process.wait(60) == 1
    (line,) = [each for each in second.lines() if "tq_metrics_port" in each]
    assert f"({port} is taken), 'auto' or 'off'" in line

    os.kill(worker.pid, 9)  # the main process alone: its children live on for a moment
    worker.process.wait()
    successor = cluster.worker("prefork", 2)
    assert get(port, "/healthz") == (200, "alive\n")
    successor.stop()
    cluster.assert_clean()


def test_an_outage_is_not_ready_and_alive(cluster_of: Any, make_server: Any) -> None:
    """Who restarts what is not alive restarts nothing for a server that is away."""
    server = make_server("redis", appendonly=True)
    cluster: Cluster = cluster_of(server, lease=1.0, ttl=0.5, metrics_port="auto")
    scheduler = port_of(cluster.scheduler())
    wait_until(lambda: get(scheduler, "/readyz")[0] == 200, "it is ready")
    server.stop()
    wait_until(lambda: get(scheduler, "/readyz")[0] == 503, "it says so")
    assert get(scheduler, "/readyz")[1].startswith("not ready: StoreUnavailableError")
    assert get(scheduler, "/healthz") == (200, "alive\n")
    assert series(scheduler)["tq_scheduler_ready"] == 0
    server.start()
    wait_until(lambda: get(scheduler, "/readyz")[0] == 200, "it is back")
