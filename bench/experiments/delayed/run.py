"""The parts of the experiment: rates of sending, memory, and a burst at one instant."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from baseline import counter
from bench.experiments.delayed.producer import AHEAD, KIND
from bench.harness import cluster
from bench.harness.arms import Arm
from bench.harness.errors import BenchError
from bench.harness.measure import percentile
from bench.harness.memory import resident
from bench.harness.process import until
from bench.harness.standing import Standing

__all__ = ["WARM_UP", "Burst", "Memory", "burst", "rate", "waiting"]

PROGRAM = "bench.experiments.delayed.producer"
#: No-ops that run before anything is measured.
WARM_UP = 2_000
#: Scripts slower than this many microseconds are noted by the server.
SLOW = 1_000


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident MiB of one process before and after the tasks were sent."""

    before: float
    after: float

    @property
    def growth(self) -> float:
        """The share by which it grew."""
        return self.after / self.before - 1


@dataclass(frozen=True, slots=True)
class Burst:
    """Seconds from the due instant to the last end, answers to PING, and the longest script."""

    seconds: float
    ping_p50_ms: float
    ping_p99_ms: float
    ping_max_ms: float
    longest_script_ms: float
    scripts: int


def _send(made: Standing, kind: str, count: int, **env: str) -> dict[str, float]:
    """Send with the producer, a process of its own."""
    return cluster.produce(made.arm, count, program=PROGRAM, env={KIND: kind, **env})


def rate(arm: Arm, kind: str, count: int) -> float:
    """Return tasks a second of one sending process; nothing else runs."""
    arm.reset()
    measured = cluster.produce(arm, count, program=PROGRAM, env={KIND: kind})
    return measured["sent"] / measured["seconds"]


def waiting(made: Standing, client: Any, count: int, settle: float) -> dict[str, Memory]:
    """Send ``count`` tasks that are due in an hour; return memory before and ``settle`` s after."""
    processes = {"worker": made.worker, "leader": made.scheduler}
    pids = {name: each.pid for name, each in processes.items() if each is not None}
    before = {name: resident(pid) for name, pid in pids.items()}
    _send(made, "bulk" if made.arm.scheduled else "single", count)

    def taken() -> bool:
        made.check()
        # Stock Celery's worker takes every message into its memory, unacknowledged.
        return made.arm.scheduled or client.llen("celery") == 0

    until(taken, "the worker to take what was sent", 600, pause=0.5)
    time.sleep(settle)
    return {name: Memory(before[name], resident(pid)) for name, pid in pids.items()}


def burst(made: Standing, client: Any, count: int, ahead: float) -> Burst:
    """Send ``count`` tasks with one ETA; watch the server from there until all have run."""
    already = counter.total(made.hits)
    sent = _send(made, "burst", count, **{AHEAD: str(ahead)})
    if sent["left"] < 0.5:
        raise BenchError(f"sending {count} tasks took longer than {ahead:g} s: raise --ahead")
    client.config_set("slowlog-log-slower-than", SLOW)
    client.config_set("slowlog-max-len", 10_000)
    client.slowlog_reset()
    time.sleep(max(0.0, sent["due"] - time.monotonic() - 0.2))
    answers: list[float] = []
    over = threading.Event()
    pinger = threading.Thread(target=_ping, args=(client, over, answers))
    pinger.start()
    try:
        until(
            lambda: counter.total(made.hits) - already >= count, "the burst to run", 300, pause=0.01
        )
        seconds = time.monotonic() - sent["due"]
    finally:
        over.set()
        pinger.join()
    time.sleep(1.0)
    if counter.total(made.hits) - already != count:
        raise BenchError(f"{counter.total(made.hits) - already} executions of {count} tasks")
    slow = [
        entry["duration"] / 1000
        for entry in client.slowlog_get(10_000)
        if entry["command"].upper().startswith(b"EVALSHA")
    ]
    p50, p99, most = (percentile(answers, q) for q in (50, 99, 100))
    return Burst(seconds, p50, p99, most, max(slow, default=0.0), len(slow))


def _ping(client: Any, over: threading.Event, answers: list[float]) -> None:
    while not over.wait(0.005):
        began = time.perf_counter()
        client.ping()
        answers.append((time.perf_counter() - began) * 1000)
