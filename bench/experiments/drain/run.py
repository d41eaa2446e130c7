"""One run of one arm: preload, start the worker, watch until everything is settled."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from baseline import counter
from bench.harness import cluster
from bench.harness.arms import Arm
from bench.harness.errors import BenchError
from bench.harness.measure import Sample, movement
from bench.harness.process import Process, until

__all__ = ["Run", "drain"]

#: Seconds without any progress after which a run is void.
STALL = 30.0
#: Seconds between two looks at the counters.
PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Run:
    """One measured drain: settled tasks per second, CPU microseconds per task by process.

    The CPU figures leave out start-up: they begin with the first settled task.
    """

    rate: float
    worker_us: float
    server_us: float
    scheduler_us: float


def drain(
    arm: Arm, pool: str, tasks: int, *, prefetch: int | None = None, python: str = sys.executable,
    envs: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
) -> Run:  # fmt: skip
    """Preload ``tasks`` no-op tasks and measure how fast a fresh worker settles them.

    ``envs`` are added to the environments of scheduler and worker.

    Raises BenchError when a process dies, nothing moves for :data:`STALL` seconds, a task is left
    over or one ran twice: a run that is not whole has no rate.
    """
    arm.reset()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-drain-"))
        hits = Path(folder) / "executions"
        counter.create(hits)
        processes = (
            [stack.enter_context(cluster.scheduler(arm, python, envs[0]))] if arm.scheduled else []
        )
        cluster.produce(arm, tasks, python)
        worker = cluster.worker(
            arm,
            pool,
            prefetch=prefetch,
            env={counter.VARIABLE: str(hits), **envs[1]},
            python=python,
        )
        processes.insert(0, stack.enter_context(worker))

        def done() -> int:
            # A task counts when it has run *and* is acknowledged, where the broker can say so.
            executed, unsettled = counter.total(hits), arm.unsettled()
            return executed if unsettled is None else min(executed, tasks - unsettled)

        def cpu() -> list[float]:
            return [*(process.cpu() for process in processes), arm.server_cpu()]

        samples, before = _watch(done, cpu, tasks, processes, f"{arm.name}, {pool}")
        after = cpu()
        counted = tasks - next(sample.done for sample in samples if sample.done)
        used = [(now - was) / counted * 1e6 for was, now in zip(before, after, strict=True)]
        worker.stop()
        until(lambda: arm.left() == 0, f"{arm.name} to be empty", 10)
        executed = counter.total(hits)
    if executed != tasks:
        raise BenchError(f"{arm.name}, {pool}: {tasks} tasks ran {executed} times")
    return Run(movement(samples), used[0], used[-1], used[1] if arm.scheduled else 0.0)


def _watch(
    done: Callable[[], int],
    cpu: Callable[[], list[float]],
    tasks: int,
    processes: list[Process],
    what: str,
) -> tuple[list[Sample], list[float]]:
    """Sample ``done`` until it reaches ``tasks``; also returns ``cpu`` at the first progress."""
    samples = [Sample(time.monotonic(), 0)]
    moved = samples[0].at
    before: list[float] = []
    while samples[-1].done < tasks:
        time.sleep(PAUSE)
        # Never backwards: the two counters behind ``done`` are read one after the other.
        now = Sample(time.monotonic(), max(done(), samples[-1].done))
        if now.done > samples[-1].done:
            moved, before = now.at, before or cpu()
        elif now.at - moved > STALL:
            raise BenchError(f"{what}: stuck after {now.done} of {tasks} tasks")
        samples.append(now)
        for process in processes:
            process.check()
    return samples, before
