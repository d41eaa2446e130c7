"""What is killed, flushed, deleted or restarted under load: everything is settled once."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.chaos.cluster import Cluster
from tests.waiting import wait_until
from tq_celery.store.keys import GROUP

pytestmark = pytest.mark.slow


@contextmanager
def load(cluster: Cluster, per_second: float = 200.0) -> Iterator[list[Exception]]:
    """Submit no-ops and short naps of five tenants all the while; yields what was refused."""
    refused: list[Exception] = []
    stop = threading.Event()

    def run() -> None:
        chance = random.Random(7)
        while not stop.wait(1 / per_second):
            try:
                tenant = f"tenant-{chance.randrange(5)}"
                if chance.random() < 0.1:
                    cluster.send("nap", 0.05, tenant=tenant, countdown=chance.choice([None, 0.2]))
                else:
                    cluster.send("noop", tenant=tenant, priority=chance.randrange(10))
            except Exception as error:
                refused.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield refused
    finally:
        stop.set()
        thread.join()


def test_a_killed_worker(cluster_of: Any, make_server: Any) -> None:
    """Its tasks run again within two leases, and all that it held is settled once."""
    cluster = cluster_of(make_server("redis"))
    cluster.scheduler()
    first = cluster.worker("threads", 8)
    ids = [cluster.send("nap", 1.0) for _ in range(16)]
    wait_until(lambda: len(cluster.runs()) >= 8, "eight tasks run")
    first.kill()
    killed = time.monotonic()
    held = set(cluster.runs())
    cluster.worker("threads", 16)
    wait_until(lambda: all(cluster.runs()[task] == 2 for task in held), "the held run again", 15)
    assert time.monotonic() - killed < 2 * cluster.lease + 2.0
    cluster.assert_clean()
    runs = cluster.runs()
    assert {runs[each] for each in ids if each not in held} == {1}


def test_leaders_killed_in_the_middle_of_batches(cluster_of: Any, make_server: Any) -> None:
    """Five leaders are killed while tasks pour in; no task is lost and none runs twice."""
    cluster = cluster_of(make_server("valkey"), policy="wfq", batch=50)
    cluster.scheduler()
    cluster.scheduler()
    cluster.worker("threads", 8)
    with load(cluster, 400) as refused:
        for _ in range(5):
            moving = cluster.settled()
            wait_until(lambda start=moving: cluster.settled() > start + 50, "tasks flow", 20)
            leader = wait_until(cluster.leader_pid, "somebody leads", 10)
            next(p for p in cluster.programs if p.pid == leader).kill()
            cluster.scheduler(wait=False)
    assert not refused
    cluster.assert_clean()
    assert set(cluster.runs().values()) == {1}


def test_scripts_flushed_all_the_while(cluster_of: Any, make_server: Any) -> None:
    """Scripts forgotten a hundred times cost nothing (Openpanel-dev/groupmq #16)."""
    cluster = cluster_of(make_server("redis"))
    cluster.scheduler()
    cluster.worker("threads", 8)
    with load(cluster, 300) as refused:
        for _ in range(100):
            cluster.client.script_flush()
            time.sleep(0.03)
    assert not refused
    cluster.assert_clean()
    assert set(cluster.runs().values()) == {1}
    assert not [line for p in cluster.programs for line in p.lines() if "NOSCRIPT" in line]


def test_groups_and_streams_deleted(cluster_of: Any, make_server: Any) -> None:
    """Consumer groups and exec streams vanish under load: their run records bring all back."""
    cluster = cluster_of(make_server("redis"), lease=1.0)
    cluster.scheduler()
    cluster.worker("threads", 4)
    cluster.worker("prefork", 2)
    exec_ = cluster.keys.of_queue("exec", "celery")
    with load(cluster, 150) as refused:
        for turn in range(8):
            time.sleep(0.4)
            if turn % 2:
                cluster.client.delete(exec_)
            else:
                cluster.client.xgroup_destroy(exec_, GROUP)
    assert not refused
    cluster.assert_clean()


@pytest.mark.parametrize("kind", ["redis", "valkey"])
def test_restarts_with_an_append_only_file(kind: str, cluster_of: Any, make_server: Any) -> None:
    """Clean restarts and kills of a server that writes before it answers lose nothing."""
    server = make_server(kind, appendonly=True, config={"appendfsync": "always"})
    cluster = cluster_of(server)
    cluster.scheduler()
    cluster.scheduler()
    cluster.worker("threads", 4)
    cluster.worker("prefork", 2)
    with load(cluster, 150) as refused:
        for turn in range(4):
            moving = cluster.settled()
            wait_until(lambda start=moving: cluster.settled() > start + 20, "tasks flow", 20)
            if turn % 2:
                server.kill()
                server.start()
            else:
                server.restart()
    assert not refused, refused[:3]
    cluster.assert_clean()


def test_everything_at_once(cluster_of: Any, make_server: Any) -> None:
    """Twenty seconds of every fault in random order, with a cap and a pause among the tenants."""
    server = make_server("valkey", appendonly=True, config={"appendfsync": "always"})
    cluster = cluster_of(server, lease=1.0, delivery_budget=100)
    for _ in range(2):
        cluster.scheduler()
    cluster.worker("threads", 4)
    cluster.worker("prefork", 2)
    cluster.store.set_cap(b"tenant-1", 1)
    chance = random.Random(int(time.time()))
    exec_ = cluster.keys.of_queue("exec", "celery")
    kinds = ["worker", "leader", "scripts", "group", "stream", "restart", "kill", "freeze", "pause"]
    done = []
    end = time.monotonic() + 20
    with load(cluster, 100):
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.2, 1.0))
            kind = chance.choice(kinds)
            done.append(kind)
            if kind == "worker":
                victim = chance.choice([p for p in cluster.programs if "worker" in p.log.name
                                        and p.alive])  # fmt: skip
                victim.kill()
                cluster.worker(chance.choice(["threads", "prefork"]), 3, wait=False)
            elif kind == "leader":
                leader = cluster.leader_pid()
                for program in cluster.programs:
                    if program.pid == leader:
                        program.kill()
                        cluster.scheduler(wait=False)
            elif kind == "scripts":
                cluster.client.script_flush()
            elif kind == "group":
                cluster.client.xgroup_destroy(exec_, GROUP)
            elif kind == "stream":
                cluster.client.delete(exec_)
            elif kind == "restart":
                server.restart()
            elif kind == "kill":
                server.kill()
                server.start()
            elif kind == "freeze":
                server.pause()
                time.sleep(chance.uniform(0.2, 2.5))
                server.resume()
            else:
                cluster.store.pause_tenant(b"tenant-2")
    cluster.store.resume_tenant(b"tenant-2")
    cluster.assert_clean(timeout=60)
    assert cluster.counters()["accepted"] > 200, done
