"""One run of one arm: a worker at half load, and how late each task started."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from bench.experiments.latency.ideal import Timing, added
from bench.experiments.latency.producer import FILE, RATE, SEED, SLEEP
from bench.harness import cluster
from bench.harness.arms import Arm
from bench.harness.cluster import POOLS
from bench.harness.process import until
from bench.harness.standing import standing

__all__ = ["Idle", "Load", "half_load", "idle"]


@dataclass(frozen=True, slots=True)
class Load:
    """Tasks per second, seconds each sleeps, and how many are sent."""

    rate: float
    sleep: float
    tasks: int
    seed: int


@dataclass(frozen=True, slots=True)
class Idle:
    """Share of one core used by each process while there is nothing to do."""

    scheduler: float
    worker: float
    server: float


def half_load(arm: Arm, pool: str, load: Load) -> list[float]:
    """Return milliseconds by which each task started later than on an ideal server."""
    with standing(arm, pool) as made:
        path = made.folder / "timings"
        path.touch()
        env = {FILE: str(path), RATE: str(load.rate), SLEEP: str(load.sleep), SEED: str(load.seed)}
        cluster.produce(arm, load.tasks, program="bench.experiments.latency.producer", env=env)
        until(lambda: len(_timings(path)) >= load.tasks, "the last task to finish", 30)
        timings = _timings(path)
    return [1000 * late for late in added(timings, POOLS[pool][1])]


def idle(arm: Arm, pool: str, seconds: float) -> Idle:
    """Return what the processes of an arm use while no task is sent."""
    with standing(arm, pool) as made:
        processes = (made.scheduler, made.worker)

        def cpu() -> list[float]:
            return [process.cpu() if process else 0.0 for process in processes] + [arm.server_cpu()]

        before, start = cpu(), time.monotonic()
        time.sleep(seconds)
        wall = time.monotonic() - start
        return Idle(*((now - was) / wall for was, now in zip(before, cpu(), strict=True)))


def _timings(path: Path) -> list[Timing]:
    """Return complete lines of the file, without the producer's first, untimed task."""
    lines = path.read_text().split("\n")[:-1]
    timings = [Timing(*map(float, line.split())) for line in lines]
    return [timing for timing in timings if timing.submitted > 0]
