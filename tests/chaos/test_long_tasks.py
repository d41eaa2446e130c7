"""Tasks far longer than the lease, and stores away for longer than it: everything runs once."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from tests.chaos.cluster import Cluster
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

POOLS = ("threads", "solo", "prefork", "gevent")


def _fill(cluster: Cluster, seconds: int) -> list[str]:
    """Start a worker per pool, and in each a task that blocks its process as much as it can."""
    cluster.scheduler()
    for pool in POOLS:
        cluster.worker(pool, 1, "-Q", pool, wait=False)
    for pool, program in zip(POOLS, cluster.programs[-len(POOLS) :], strict=True):
        assert pool
        cluster.announced(program)
    held = [cluster.send("hold", seconds, queue=pool) for pool in POOLS[:3]]
    return [*held, cluster.send("spin", float(seconds), queue="gevent")]


def _all_started(cluster: Cluster) -> bool:
    return len(cluster.runs()) == len(POOLS)


@pytest.mark.timeout(240)
def test_tasks_that_block_their_process_run_once(cluster_of: Any, make_server: Any) -> None:
    """25 s with a lease of 2 s and 60 s with one of 5 s, while a second worker stands ready.

    The tasks hold the interpreter's lock (threads, solo, prefork) or never yield their greenlet
    (gevent). Seen to fail without the renewer process: threads, solo and gevent run two to five
    times (taskiq-python/taskiq-redis #101).
    """
    short = cluster_of(make_server("redis"), lease=2.0)
    long = cluster_of(make_server("valkey"), lease=5.0)
    ids = [*_fill(short, 25), *_fill(long, 60)]
    for cluster in (short, long):
        wait_until(partial(_all_started, cluster), "all bodies have started")
    # another worker of each queue would get what is taken from the first
    short.worker("threads", 4, "-Q", ",".join(POOLS))
    long.worker("threads", 4, "-Q", ",".join(POOLS))
    short.assert_clean(timeout=90)
    long.assert_clean(timeout=120)
    runs = short.runs() + long.runs()
    assert {runs[task] for task in ids} == {1}, runs
    for cluster in (short, long):
        lost = [line for p in cluster.programs for line in p.lines() if "worker lost" in line]
        assert not lost


def _paused(cluster: Cluster) -> None:
    cluster.client.execute_command("CLIENT", "PAUSE", 5000, "ALL")
    cluster.client.ping()  # answered when it is over


def _frozen(cluster: Cluster) -> None:
    cluster.server.pause()
    time.sleep(5)
    cluster.server.resume()


def _stopped(cluster: Cluster) -> None:
    cluster.server.halt()
    time.sleep(2 * cluster.lease)
    cluster.server.start()


def _outage(cluster: Cluster, fault: Callable[[Cluster], None]) -> None:
    """Let ``fault`` happen while tasks run in every pool."""
    cluster.scheduler()
    cluster.scheduler()
    for pool in POOLS:
        cluster.worker(pool, 2, "-Q", pool)
    ids = [cluster.send("nap", 14.0, queue=pool) for pool in POOLS]
    wait_until(lambda: len(cluster.runs()) == len(POOLS), "all bodies have started")
    time.sleep(cluster.lease + 1)  # the schedulers have been in touch for a whole lease
    fault(cluster)
    more = [cluster.send("nap", 0.1, queue=pool) for pool in POOLS if pool != "solo"]
    cluster.assert_clean(timeout=60)
    runs = cluster.runs()
    assert {runs[task] for task in (*ids, *more)} == {1}, runs
    outcomes = {record["outcome"] for record in cluster.results()}
    assert outcomes == {b"completed"}


@pytest.mark.timeout(240)
def test_outages_longer_than_the_lease(cluster_of: Any, make_server: Any) -> None:
    """CLIENT PAUSE, a frozen server and a stop of two leases: what runs runs once.

    Seen to fail with ``Contact.settled`` always true: the schedulers then take everything from
    the workers as soon as the server is back.
    """
    cases = [("redis", _paused), ("valkey", _paused), ("valkey", _frozen), ("redis", _stopped)]
    clusters = [
        cluster_of(make_server(kind, appendonly=fault is _stopped), lease=2.0)
        for kind, fault in cases
    ]
    with ThreadPoolExecutor(len(cases)) as threads:
        jobs = [
            threads.submit(_outage, cluster, fault)
            for cluster, (_, fault) in zip(clusters, cases, strict=True)
        ]
    for job in jobs:
        job.result()
