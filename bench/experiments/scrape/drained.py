"""What metrics cost a worker that empties a queue: off against on, scraped as Prometheus does."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from baseline import counter
from bench.experiments.scrape.target import PORT, free_port, scheduler, scrape
from bench.harness import cluster
from bench.harness.arms import TQArm
from bench.harness.errors import BenchError
from bench.harness.measure import Sample, movement
from bench.harness.process import Process

__all__ = ["Drained", "drained"]

#: Program that sends in bulk.
BULK = "bench.experiments.submit.bulk"
#: Seconds without any progress after which a run is void.
STALL = 30.0
#: Seconds between two looks.
PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class Drained:
    """Tasks per second, CPU microseconds per task of worker, scheduler and server, and scrapes."""

    rate: float
    cpu_us: float
    scrapes: int


def drained(arm: TQArm, tasks: int, pool: str, every: float | None) -> Drained:
    """Empty a queue of no-op tasks; scheduler and worker are scraped ``every`` s, None: off.

    Raises BenchError when a process dies, nothing moves or a task runs twice.
    """
    arm.reset()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-scrape-"))
        hits = Path(folder) / "executions"
        counter.create(hits)
        ports = [free_port(), free_port()] if every is not None else []
        leader = stack.enter_context(scheduler(arm, ports[0] if ports else None))
        cluster.produce(arm, tasks, program=BULK)
        env = {counter.VARIABLE: str(hits), PORT: str(ports[1]) if ports else "off"}
        worker = stack.enter_context(cluster.worker(arm, pool, env=env))
        rate, used, seen = _watch(arm, tasks, [worker, leader], ports, every or 0.0)
        worker.stop()
        executed = counter.total(hits)
    if executed != tasks:
        raise BenchError(f"{tasks} tasks ran {executed} times")
    return Drained(rate, used, seen)


def _watch(
    arm: TQArm, tasks: int, processes: list[Process], ports: list[int], every: float
) -> tuple[float, float, int]:
    """Return rate, CPU microseconds per task, and scrapes, all from the first settled task on."""

    def cpu() -> float:
        return sum(process.cpu() for process in processes) + arm.server_cpu()

    samples, before = [Sample(time.monotonic(), 0)], 0.0
    moved = samples[0].at
    with contextlib.ExitStack() as stack:
        seen: list[int] = []
        while samples[-1].done < tasks:
            time.sleep(PAUSE)
            now = Sample(time.monotonic(), max(tasks - (arm.unsettled() or 0), samples[-1].done))
            if now.done > samples[-1].done:
                moved = now.at
                if not before:
                    before = cpu()
                    if ports:
                        seen = stack.enter_context(_scraped(ports, every))
            elif now.at - moved > STALL:
                raise BenchError(f"stuck after {now.done} of {tasks} tasks")
            samples.append(now)
            for process in processes:
                process.check()
        used = cpu() - before
    counted = tasks - next(sample.done for sample in samples if sample.done)
    return movement(samples), used / max(1, counted) * 1e6, len(seen)


@contextlib.contextmanager
def _scraped(ports: list[int], every: float) -> Iterator[list[int]]:
    """Scrape all ports every so many seconds, at once first; yields their sizes."""
    seen: list[int] = []
    failed: list[BenchError] = []
    over = threading.Event()

    def repeat() -> None:
        try:
            while True:
                seen.extend(len(scrape(port).body) for port in ports)
                if over.wait(every):
                    return
        except BenchError as error:
            failed.append(error)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
    if failed:
        raise failed[0]
