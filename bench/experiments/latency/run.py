"""One run of one arm: a worker at half load, and how late each task started."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from baseline import counter
from bench.experiments.latency.ideal import Timing, added
from bench.experiments.latency.producer import FILE, RATE, SEED, SLEEP
from bench.harness import cluster
from bench.harness.arms import Arm
from bench.harness.cluster import POOLS
from bench.harness.process import Process, until

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
    with _started(arm, pool) as (folder, _):
        path = folder / "timings"
        path.touch()
        env = {FILE: str(path), RATE: str(load.rate), SLEEP: str(load.sleep), SEED: str(load.seed)}
        cluster.produce(arm, load.tasks, program="bench.experiments.latency.producer", env=env)
        until(lambda: len(_timings(path)) >= load.tasks, "the last task to finish", 30)
        timings = _timings(path)
    return [1000 * late for late in added(timings, POOLS[pool][1])]


def idle(arm: Arm, pool: str, seconds: float) -> Idle:
    """Return what the processes of an arm use while no task is sent."""
    with _started(arm, pool) as (_, processes):

        def cpu() -> list[float]:
            return [process.cpu() if process else 0.0 for process in processes] + [arm.server_cpu()]

        before, start = cpu(), time.monotonic()
        time.sleep(seconds)
        wall = time.monotonic() - start
        return Idle(*((now - was) / wall for was, now in zip(before, cpu(), strict=True)))


@contextlib.contextmanager
def _started(arm: Arm, pool: str) -> Iterator[tuple[Path, tuple[Process | None, Process]]]:
    """Run scheduler and worker, and wait until a first task has gone through them."""
    arm.reset()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-latency-")))
        hits = folder / "executions"
        counter.create(hits)
        scheduler = stack.enter_context(cluster.scheduler(arm)) if arm.scheduled else None
        worker = stack.enter_context(cluster.worker(arm, pool, env={counter.VARIABLE: str(hits)}))
        cluster.produce(arm, 1)

        def ran() -> bool:
            worker.check()
            return counter.total(hits) == 1

        until(ran, "the first task to run", 30)
        yield folder, (scheduler, worker)


def _timings(path: Path) -> list[Timing]:
    """Return complete lines of the file, without the producer's first, untimed task."""
    lines = path.read_text().split("\n")[:-1]
    timings = [Timing(*map(float, line.split())) for line in lines]
    return [timing for timing in timings if timing.submitted > 0]
