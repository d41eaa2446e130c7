"""Public reports of what broke elsewhere, as tests of what must hold here."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.chaos.cluster import ROOT, Cluster
from tests.chaos.jobs import make_app
from tests.waiting import BUSY, wait_until
from tq_celery.store.keys import GROUP

pytestmark = pytest.mark.slow


def _connections(cluster: Cluster) -> int:
    return len(cluster.client.client_list()) - 1


def test_an_idle_cluster(cluster_of: Any, make_server: Any) -> None:
    """Nothing is logged, no connection comes or goes, and a stop takes less than a second.

    redis/redis-py #2807: a blocking read that outlasts the socket's timeout is taken for a lost
    server; loops reconnect for ever or end.
    """
    cluster = cluster_of(make_server("redis"), lease=3.0, ttl=3.0)
    leader = cluster.scheduler()
    standby = cluster.scheduler()
    workers = [cluster.worker("threads", 2), cluster.worker("prefork", 2)]
    cluster.send("noop")
    cluster.assert_clean()
    time.sleep(3)
    quiet = {program.pid: len(program.lines()) for program in cluster.programs}
    counts, served = {_connections(cluster)}, cluster.client.info("stats")
    end = time.monotonic() + 20
    while time.monotonic() < end:
        time.sleep(0.5)
        counts.add(_connections(cluster))
    after = cluster.client.info("stats")
    assert len(counts) == 1, counts
    assert after["total_connections_received"] == served["total_connections_received"]
    for program in cluster.programs:
        assert len(program.lines()) == quiet[program.pid], program.tail()
    threads, prefork = workers
    assert max(program.stop() for program in (standby, leader, threads)) < 1.0 + BUSY
    assert prefork.stop() < 4.0 + BUSY  # Celery alone takes 2.3 s to end two idle processes
    cluster.assert_clean()


def test_streams_return_to_length_zero(cluster_of: Any, make_server: Any) -> None:
    """10,000 tasks leave nothing; three times as many wait without workers and all run.

    taskiq-python/taskiq-redis #114: acknowledged entries stayed until the server ran out of
    memory, and trimming the stream threw away what had not been read.
    """
    cluster = cluster_of(make_server("valkey"), results_maxlen=200_000)
    cluster.scheduler()
    worker = cluster.worker("threads", 8)
    cluster.send_many("noop", 10_000)
    cluster.assert_clean()
    assert worker.stop() < 5 + BUSY
    cluster.send_many("noop", 30_000)
    assert cluster.settled() == 10_000
    cluster.worker("threads", 8)
    cluster.worker("threads", 8)
    cluster.assert_clean(timeout=90)
    assert cluster.counters()["completed"] == 40_000


def _overtake(cluster: Cluster, pool: str) -> None:
    cluster.scheduler()
    cluster.worker(pool, 1)
    low = [cluster.send("nap", 0.05, priority=1) for _ in range(200)]
    wait_until(lambda: len(cluster.runs()) > 20, "the low ones run")
    high = cluster.send("nap", 0.0, priority=9)
    before = set(cluster.runs())
    wait_until(lambda: cluster.runs()[high], "the high one runs")
    in_order = [line.split()[0] for line in cluster.runs_file.read_text().splitlines()]
    until = in_order[: in_order.index(high)]
    late = [task for task in until if task in low and task not in before]
    # one runs, one waits for the slot, and one may be on its way
    assert len(late) <= 3, (pool, len(late))
    cluster.assert_clean()


def test_an_urgent_task_behind_many(cluster_of: Any, make_server: Any) -> None:
    """Tasks that start after a more urgent one was accepted: those already read, no more.

    celery/celery #7633: what had been handed out before ran first, however urgent the later one.
    """
    server = make_server("redis")
    pools = ("threads", "solo", "prefork")
    clusters = [cluster_of(server, policy="priority") for _ in pools]
    with ThreadPoolExecutor(len(pools)) as threads:
        for job in [threads.submit(_overtake, *pair) for pair in zip(clusters, pools, strict=True)]:
            job.result()


def test_unknown_words_are_start_up_errors(cluster_of: Any, make_server: Any) -> None:
    """celery/celery #7633: an unknown strategy was accepted in silence."""
    cluster = cluster_of(make_server("valkey"))
    for flags in (["--policy", "fair"], ["--order-within", "random"]):
        done = subprocess.run(
            [sys.executable, "-m", "tq_celery.cli", "scheduler", *flags],
            env=cluster.environ, cwd=ROOT, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 2
        assert flags[1] in done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "tq_celery.cli", "scheduler"],
        env={**cluster.environ, "TQ_POLICY": "fair"}, cwd=ROOT, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "fair" in done.stderr


def _stall(cluster: Cluster, seconds: float) -> None:
    cluster.server.pause()
    time.sleep(seconds)
    cluster.server.resume()


def test_one_submission_in_a_stall(cluster_of: Any, make_server: Any) -> None:
    """The reply is lost and the call repeated: one call, one task.

    redis/redis-py #3554: the client repeated a command that the server had already run.
    """
    cluster = cluster_of(make_server("redis", config={"enable-debug-command": "yes"}))
    impatient = make_app(
        cluster.broker, None, url=cluster.server.url, namespace=cluster.namespace,
        publish_timeout=6.0,
    )  # fmt: skip
    impatient.tasks["noop"].apply_async(task_id="first")
    sleeper = cluster.server.client()
    napping = threading.Thread(target=sleeper.execute_command, args=("DEBUG", "SLEEP", "2.6"))
    napping.start()
    time.sleep(0.1)
    impatient.tasks["noop"].apply_async(task_id="second")
    napping.join()
    sleeper.close()
    freezing = threading.Thread(target=_stall, args=(cluster, 2.6))
    freezing.start()
    time.sleep(0.1)
    impatient.tasks["noop"].apply_async(task_id="third")
    freezing.join()
    assert cluster.client.xlen(cluster.keys.name("ingress")) == 3
    assert cluster.counters()["accepted"] == 3
    cluster.scheduler()
    cluster.worker("threads", 2)
    cluster.assert_clean(["first", "second", "third"])
    impatient.close()


@pytest.mark.timeout(240)
def test_a_hundred_random_stalls(cluster_of: Any, make_server: Any) -> None:
    """Timeouts everywhere, all of them in the middle of something: each task runs once.

    redis/redis-py #3554. A sender that gets an error sends the same id again.
    """
    cluster = cluster_of(make_server("valkey"), publish_timeout=0.6, lease=5.0)
    cluster.scheduler()
    cluster.worker("threads", 4)
    stop, lock, errors = threading.Event(), threading.Lock(), []

    def send() -> None:
        while not stop.wait(0.02):
            task_id = uuid.uuid4().hex
            while True:
                try:
                    cluster.app.tasks["nap"].apply_async((0.01,), task_id=task_id)
                    break
                except Exception as error:
                    with lock:
                        errors.append(repr(error))
            with lock:
                cluster.submitted.append(task_id)

    senders = [threading.Thread(target=send) for _ in range(3)]
    for sender in senders:
        sender.start()
    chance = random.Random(3)
    for _ in range(100):
        time.sleep(chance.uniform(0.01, 0.1))
        _stall(cluster, chance.choice([0.02, 0.05, 0.05, 0.1, 0.1, 0.1, 0.25, 0.7]))
    stop.set()
    for sender in senders:
        sender.join()
    assert all("OperationalError" in error for error in errors), set(errors)
    cluster.assert_clean()
    assert set(cluster.runs().values()) == {1}
    assert len(cluster.runs()) == len(cluster.submitted) == cluster.counters()["completed"]


def test_dead_entries_behind_live_ones(cluster_of: Any, make_server: Any) -> None:
    """Five deliveries of a dead worker behind twenty of a live one, two of them deleted.

    redis/redis-py #2226: recovery looked at the front of the pending list again and again, and
    broke on entries that were no longer there.
    """
    cluster = cluster_of(make_server("redis"), lease=1.0, batch=2)
    cluster.scheduler()
    for _ in range(25):
        cluster.send("nap", 0.0)
    cluster.hold("live", 20, 600_000)
    cluster.hold("dead", 5, 4_000)
    exec_ = cluster.keys.of_queue("exec", "celery")
    held = cluster.client.xpending_range(exec_, GROUP, "-", "+", 10, "dead")
    cluster.client.xdel(exec_, held[0]["message_id"], held[3]["message_id"])
    cluster.worker("threads", 4)
    wait_until(lambda: len(cluster.runs()) == 5, "the dead worker's five run")
    wait_until(lambda: cluster.settled() == 5, "they are settled as well")
    cluster.store.withdraw("live")
    cluster.assert_clean()
    assert set(cluster.runs().values()) == {1}


@pytest.mark.timeout(240)
def test_twenty_thousand_at_one_instant(cluster_of: Any, make_server: Any) -> None:
    """One due time for all, then one worker's death for all; the server answers all the while.

    Bogdanp/dramatiq #258: a batch of everything overflowed the script and stopped the loop.
    """
    cluster = cluster_of(make_server("redis"), lease=2.0, results_maxlen=200_000)
    cluster.client.config_set("slowlog-log-slower-than", 100_000)
    cluster.client.config_set("slowlog-max-len", 1000)
    due = datetime.now(UTC) + timedelta(seconds=12)
    cluster.send_many("noop", 20_000, eta=due, tenant=lambda number: f"t{number % 50}")
    cluster.scheduler()
    cluster.hold("doomed", 20_000, 3_000)
    assert cluster.counters()["dispatched"] == 20_000
    cluster.worker("threads", 8)
    cluster.assert_clean(timeout=120)
    assert cluster.counters()["completed"] == 20_000
    counted = {record["attempts"] for record in cluster.results()}
    assert counted == {b"1"}
    slow = [entry["command"][:60] for entry in cluster.client.slowlog_get(1000)]
    # a stalled machine may be behind a few; a script that takes too much would be behind each
    assert len(slow) <= 5, slow[:5]
    for program in cluster.programs:
        assert not [line for line in program.lines() if "Traceback" in line], program.tail()
