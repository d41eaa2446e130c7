"""The parts of the experiment: rates of sending, memory, exactness, and a burst at one instant."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baseline import counter
from bench.experiments.delayed.producer import AHEAD, FILE, KIND
from bench.harness import cluster
from bench.harness.arms import Arm, RedisArm, TQArm
from bench.harness.errors import BenchError
from bench.harness.measure import percentile
from bench.harness.memory import resident
from bench.harness.process import Process, until
from bench.harness.servers import RedisServer

__all__ = ["Burst", "Memory", "Stage", "burst", "drift", "rate", "waiting"]

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


@dataclass(frozen=True, slots=True)
class Stage:
    """The running processes of an arm."""

    arm: Arm
    server: RedisServer
    folder: Path
    hits: Path
    worker: Process
    scheduler: Process | None

    def processes(self) -> dict[str, Process]:
        """Return those whose memory counts, by name."""
        found = {"worker": self.worker}
        if self.scheduler is not None:
            found["leader"] = self.scheduler
        return found

    def send(self, kind: str, count: int, **env: str) -> dict[str, float]:
        """Send with the producer, a process of its own."""
        return cluster.produce(self.arm, count, program=PROGRAM, env={KIND: kind, **env})

    def check(self) -> None:
        """Raise BenchError when a process has ended by itself."""
        for process in self.processes().values():
            process.check()


@contextlib.contextmanager
def stage(arm: TQArm | RedisArm) -> Iterator[Stage]:
    """Start the arm's processes and let them warm up."""
    arm.reset()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-delayed-")))
        hits = folder / "executions"
        counter.create(hits)
        scheduler = stack.enter_context(cluster.scheduler(arm)) if arm.scheduled else None
        env = {counter.VARIABLE: str(hits)}
        worker = stack.enter_context(cluster.worker(arm, "threads", env=env))
        made = Stage(arm, arm.server, folder, hits, worker, scheduler)
        cluster.produce(arm, WARM_UP)

        def warm() -> bool:
            made.check()
            return counter.total(hits) >= WARM_UP and not arm.unsettled()

        until(warm, "the first tasks to run", 60)
        yield made


def rate(arm: Arm, kind: str, count: int) -> float:
    """Return tasks a second of one sending process; nothing else runs."""
    arm.reset()
    measured = cluster.produce(arm, count, program=PROGRAM, env={KIND: kind})
    return measured["sent"] / measured["seconds"]


def waiting(made: Stage, count: int, settle: float) -> dict[str, Memory]:
    """Send ``count`` tasks that are due in an hour; return memory before and ``settle`` s after."""
    before = {name: resident(each.pid) for name, each in made.processes().items()}
    made.send("bulk" if made.arm.scheduled else "single", count)
    client = made.server.client

    def taken() -> bool:
        made.check()
        # Stock Celery's worker takes every message into its memory, unacknowledged.
        return made.arm.scheduled or client.llen("celery") == 0

    until(taken, "the worker to take what was sent", 600, pause=0.5)
    time.sleep(settle)
    return {
        name: Memory(before[name], resident(each.pid)) for name, each in made.processes().items()
    }


def drift(made: Stage, count: int) -> list[float]:
    """Return by how many ms each of ``count`` tasks started after it was due, least first."""
    path = made.folder / "timings"
    path.touch()
    made.send("drift", count, **{FILE: str(path)})

    def ran() -> bool:
        made.check()
        return path.read_text().count("\n") >= count

    until(ran, "the tasks with a countdown of a second", 60)
    lines = [line.split() for line in path.read_text().splitlines()]
    return sorted(1000 * (float(started) - float(due)) for due, started, _ in lines)


def burst(made: Stage, count: int, ahead: float) -> Burst:
    """Send ``count`` tasks with one ETA; watch the server from there until all have run."""
    client: Any = made.server.client
    already = counter.total(made.hits)
    sent = made.send("burst", count, **{AHEAD: str(ahead)})
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
