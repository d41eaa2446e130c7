"""Delayed tasks through the loss of everything around them: on time, once, and none forgotten.

Tasks note the monotonic clock when they start, which no fault of these tests touches.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bench.harness.clocks import Clocks
from tests.chaos.clocks import clocks
from tests.chaos.cluster import ROOT, Cluster
from tests.waiting import BUSY, wait_until

__all__ = ["clocks"]

pytestmark = pytest.mark.slow

#: Lease of the leader in these tests, s: what a killed leader costs at most, beside 0.2 s.
TTL = 0.5
#: Seconds that a task may be late, and that rounding may make it early, or a clock that is kept
#: right while the other, by which the test looks, is not.
LATE, EARLY = 1.0 + BUSY, 0.05


class Timetable:
    """Naps that are due one after the other, and when each of them started."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.due: dict[str, float] = {}

    def send(self, count: int, first: float, last: float) -> None:
        """Send ``count`` tasks with countdowns from ``first`` to ``last`` seconds."""
        for number in range(count):
            countdown = first + (last - first) * number / max(1, count - 1)
            due = time.monotonic() + countdown
            task_id = self.cluster.send("nap", 0.0, countdown=countdown, tenant=f"t{number % 5}")
            self.due[task_id] = due

    def starts(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        if self.cluster.runs_file.exists():
            for line in self.cluster.runs_file.read_text().splitlines():
                task_id, at = line.split()[:2]
                found.setdefault(task_id, []).append(float(at))
        return found

    def sleep_until(self, since_first: float) -> None:
        """Sleep until so many seconds after the first task was due."""
        time.sleep(max(0.0, min(self.due.values()) + since_first - time.monotonic()))

    def check(self, away: tuple[float, float] | None = None, again: int = 0) -> None:
        """Every task ran on time and once; ``away`` is a span without a server.

        What was due in that span is measured from its end. ``again`` tasks may have run twice:
        those that ran when something was killed.
        """
        self.cluster.assert_clean(timeout=60)
        starts = self.starts()
        assert starts.keys() >= self.due.keys()
        late = {}
        for task_id, due in self.due.items():
            if away is not None and away[0] - 0.5 <= due <= away[1]:
                due = away[1]
            elif starts[task_id][0] < due - EARLY:
                pytest.fail(f"{due - starts[task_id][0]:.3f} s early")
            late[task_id] = starts[task_id][0] - due
        assert max(late.values()) <= LATE, sorted(late.values())[-5:]
        extra = sum(len(starts[task_id]) - 1 for task_id in self.due)
        assert extra <= again, f"{extra} executions too many"


def test_on_time_through_killed_and_stopped_leaders(cluster_of: Any, make_server: Any) -> None:
    """celery/celery #9849: a SIGKILLed holder of ETA tasks took them along for an hour."""
    cluster = cluster_of(make_server("valkey"), ttl=TTL)
    for _ in range(3):
        cluster.scheduler()
    cluster.worker("threads", 4)
    table = Timetable(cluster)
    table.send(120, 1.0, 7.0)
    table.sleep_until(2.0)
    cluster.leader().kill()
    table.sleep_until(4.0)
    assert cluster.leader().stop() < 3 + BUSY
    table.check()


@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_on_time_after_a_server_was_killed(cluster_of: Any, make_server: Any, fsync: str) -> None:
    """With an append-only file every delayed task is back when the server is."""
    server = make_server("redis", appendonly=True, config={"appendfsync": fsync})
    cluster = cluster_of(server, ttl=TTL, lease=4.0)
    cluster.scheduler()
    cluster.worker("threads", 4)
    table = Timetable(cluster)
    table.send(100, 2.5, 7.5)
    table.sleep_until(2.0)  # what was sent is on the disk, with everysec as well
    stopped = time.monotonic()
    server.kill()
    time.sleep(1.5)
    server.start()
    # with everysec the last second's settlements may be forgotten, and run again
    again = 4 if fsync == "always" else 40
    table.check(away=(stopped, time.monotonic()), again=again)


def test_on_time_through_killed_workers(cluster_of: Any, make_server: Any) -> None:
    """What is not due is in nobody's memory: a SIGKILL takes none of it, a new worker helps.

    celery/celery #9849 and #2541: one worker held every ETA task, and new ones stood idle.
    """
    cluster = cluster_of(make_server("valkey"), ttl=TTL, lease=1.0)
    cluster.scheduler()
    first = cluster.worker("threads", 2)
    table = Timetable(cluster)
    table.send(100, 2.0, 7.0)
    urgent = cluster.send("nap", 0.0)
    wait_until(lambda: urgent in table.starts(), "work that is due runs at once")
    table.sleep_until(1.5)
    second = cluster.worker("prefork", 2)
    table.send(60, 0.5, 3.5)
    time.sleep(1.5)
    first.kill()
    # at most what the killed one held, fetched or running, waits for its lease
    cluster.assert_clean(timeout=30)
    starts, due = table.starts(), table.due
    late = sorted(starts[task_id][0] - at for task_id, at in due.items())
    assert late[-6] <= LATE, late[-10:]
    assert late[-1] <= 2 * 1.0 + LATE, late[-10:]
    workers = {record["worker"] for record in cluster.results()}
    assert len(workers) == 2
    assert second.alive


def _resident(pid: int) -> int:
    """Return resident KiB."""
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0])


def test_a_hundred_thousand_that_wait_cost_no_memory(cluster_of: Any, make_server: Any) -> None:
    """celery/celery #9849: the worker takes them all in, grows, is killed, and it begins anew."""
    cluster = cluster_of(make_server("valkey"))
    leader = cluster.scheduler()
    worker = cluster.worker("threads", 4)
    cluster.send_many("noop", 2_000)
    cluster.assert_clean()
    before = {program.pid: _resident(program.pid) for program in (leader, worker)}
    tq, noop = cluster.app.tq, cluster.app.tasks["noop"]
    tq.submit_many((noop, (), {}, {"countdown": 3600}) for _ in range(100_000))
    done = cluster.send("nap", 0.0, countdown=1)
    wait_until(lambda: cluster.run_of(done), "other work runs")
    assert cluster.client.zcard(cluster.keys.name("delayed")) == 100_000
    for pid, resident in before.items():
        assert _resident(pid) <= resident * 1.1, "more than a tenth of what it had"


_PRODUCER = """
import json, sys, time
from tests.chaos.jobs import app
for number in range(60):
    countdown = 1.0 + number / 10
    due = time.monotonic() + countdown
    print(json.dumps([app.tasks["nap"].apply_async((0.0,), countdown=countdown).id, due]))
"""


def test_only_the_servers_clock_counts(cluster_of: Any, make_server: Any, clocks: Clocks) -> None:
    """Producer, schedulers and worker are ten minutes off, in both directions.

    sidekiq-scheduler/sidekiq-scheduler #283: a clock that was ahead ran everything at once, one
    that was behind ran nothing.
    """
    cluster = cluster_of(make_server("valkey"), ttl=TTL)
    right = dict(cluster.environ)
    for shift in (600, -600, 600):
        cluster.environ = {**right, **clocks.shifted(shift).environ}
        cluster.scheduler()
    cluster.environ = {**right, **clocks.shifted(600).environ}
    cluster.worker("threads", 4)
    behind = {**right, **clocks.shifted(-600).environ}
    sent = subprocess.run(
        [sys.executable, "-c", _PRODUCER], env=behind, cwd=ROOT, capture_output=True, text=True,
        check=True, timeout=60,
    )  # fmt: skip
    table = Timetable(cluster)
    table.due = dict(json.loads(line) for line in sent.stdout.splitlines())
    cluster.submitted = list(table.due)
    for since_first in (1.5, 4.0):
        table.sleep_until(since_first)
        cluster.leader().kill()
    table.check()


def test_a_server_whose_clock_steps_back(cluster_of: Any, make_server: Any, clocks: Clocks) -> None:
    """What is sent after the step is on time; what waited before runs when its hour has come.

    sidekiq-scheduler/sidekiq-scheduler #283. Stream ids go on from the highest there was, an hour
    ahead of the clock.
    """
    clock = clocks.shifted(0)
    with clock.used():
        server = make_server("valkey")
    cluster = cluster_of(server, ttl=TTL, lease=2.0)
    cluster.scheduler()
    cluster.worker("threads", 4)
    before = cluster.send("nap", 0.0, countdown=4.0)
    eta = cluster.send("nap", 0.0, eta=datetime.now(UTC) + timedelta(seconds=4))
    cluster.send("nap", 0.0)
    clock.step(-3600)
    # The server may answer one command from the time it read when it last woke up.
    wait_until(
        lambda: 3590 < time.time() - cluster.client.time()[0] < 3610, "the server shows the step"
    )
    table = Timetable(cluster)
    table.send(40, 0.2, 4.0)
    wait_until(lambda: table.starts().keys() >= table.due.keys(), "they run")
    starts = table.starts()
    late = [starts[task_id][0] - due for task_id, due in table.due.items()]
    assert min(late) >= -EARLY, sorted(late)[:5]
    assert max(late) <= LATE, sorted(late)[-5:]
    assert not {before, eta} & starts.keys(), "an hour too early"
    clock.step(0)
    wait_until(lambda: {before, eta} <= table.starts().keys(), "the old ones run")
    cluster.assert_clean()
    assert set(cluster.runs().values()) == {1}
