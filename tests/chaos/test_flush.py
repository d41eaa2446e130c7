"""A server that loses everything at once, while all processes stay."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest

from tests.chaos.cluster import Program
from tests.waiting import BUSY, wait_until

pytestmark = pytest.mark.slow

#: When a line was written, to the second, and what is different in each line of a kind.
_SECOND = re.compile(r"\d{4}-\d\d-\d\d (\d\d:\d\d:\d\d)")
_DETAIL = re.compile(r"[0-9a-f]{6,}|\d+")


def busiest(program: Program) -> tuple[int, str]:
    """Return the most lines of one kind in one second, and that kind."""
    kinds: Counter[tuple[str, str]] = Counter()
    for line in program.lines():
        at = _SECOND.search(line)
        if at:
            kinds[at.group(1), _DETAIL.sub("#", line[at.end() :])] += 1
    if not kinds:
        return 0, ""
    (_, kind), count = kinds.most_common(1)[0]
    return count, kind


def _since(started: float, seconds: float) -> bool:
    return time.monotonic() - started > seconds


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_work_goes_on_after_a_flush(pool: str, cluster_of: Any, make_server: Any) -> None:
    """After FLUSHALL the next task runs within 5 s, and logs stay quiet (ag2ai/faststream #2611).

    The broker is on the same server, as in many deployments, so it is emptied as well.
    """
    cluster = cluster_of(make_server("redis"))
    schedulers = [cluster.scheduler(), cluster.scheduler()]
    worker = cluster.worker(pool, 4)
    for _ in range(3):
        lost = [cluster.send("nap", 0.3) for _ in range(20)]
        wait_until(lambda: len(cluster.runs()) >= 2, "some run")
        time.sleep(0.2)
        cluster.client.flushall()
        cluster.submitted = [task for task in cluster.submitted if task not in lost]
        started = time.monotonic()
        sent = cluster.send("nap", 0.0)
        wait_until(partial(cluster.run_of, sent), "the next task runs")
        assert time.monotonic() - started < 5 + BUSY
        cluster.assert_clean()
        assert cluster.store.config()["policy"] == "wfq"
        cluster.submitted = []
        # each flush has lines of its own: they are counted by the second
        wait_until(partial(_since, started, 1.0), "a second is over since the flush")
    assert all(program.alive for program in (*schedulers, worker))
    for program in (*schedulers, worker):
        count, kind = busiest(program)
        # two, because a second by the clock may hold the end of one and the start of another
        assert count <= 2, (kind, program.tail(60))


def test_an_idle_worker_with_a_long_lease(cluster_of: Any, make_server: Any) -> None:
    """The slots of a worker that has nothing to say are known again as soon as others'.

    Seen to fail when a worker renewed three times per lease and not more: the next task waited for
    half a minute, and for up to ten seconds at the default lease.
    """
    cluster = cluster_of(make_server("valkey"), lease=90.0)
    cluster.scheduler()
    cluster.worker("threads", 4)
    cluster.send("noop")
    cluster.assert_clean()
    cluster.client.flushall()
    started = time.monotonic()
    cluster.submitted = [cluster.send("nap", 0.0)]
    cluster.assert_clean()
    assert time.monotonic() - started < 4 + BUSY


def test_flushed_all_the_while(cluster_of: Any, make_server: Any) -> None:
    """Ten flushes under load: logs stay quiet, and what is accepted afterwards is settled once."""
    cluster = cluster_of(make_server("valkey"), lease=1.0)
    cluster.scheduler()
    cluster.scheduler()
    cluster.worker("threads", 4)
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(0.005):
            cluster.send("nap", 0.02)

    sender = threading.Thread(target=run)
    sender.start()
    for _ in range(10):
        time.sleep(0.4)
        cluster.client.flushall()
    stop.set()
    sender.join()
    cluster.submitted = [cluster.send("noop") for _ in range(20)]
    cluster.assert_clean()
    for program in cluster.programs:
        assert program.alive
        count, kind = busiest(program)
        # a delivery whose payload is gone has a line of its own: as many as one read brings
        assert count <= 8, (kind, program.tail(60))
