"""An arm that stands ready: its scheduler and one worker are running and have run a first task."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from baseline import counter
from bench.harness import cluster
from bench.harness.arms import Arm
from bench.harness.process import Process, until

__all__ = ["Standing", "standing"]

#: Seconds for the processes to start and run the first tasks.
START = 60.0


@dataclass(frozen=True, slots=True)
class Standing:
    """The running processes of an arm.

    ``folder`` is deleted at the end; ``hits`` in it counts the no-op tasks that have run.
    """

    arm: Arm
    folder: Path
    hits: Path
    worker: Process
    scheduler: Process | None

    def check(self) -> None:
        """Raise BenchError when a process has ended by itself."""
        self.worker.check()
        if self.scheduler is not None:
            self.scheduler.check()


@contextlib.contextmanager
def standing(arm: Arm, pool: str = "threads", first: int = 1) -> Iterator[Standing]:
    """Empty the arm, start its processes and let ``first`` no-op tasks through."""
    arm.reset()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-standing-")))
        hits = folder / "executions"
        counter.create(hits)
        scheduler = stack.enter_context(cluster.scheduler(arm)) if arm.scheduled else None
        env = {counter.VARIABLE: str(hits)}
        worker = stack.enter_context(cluster.worker(arm, pool, env=env))
        made = Standing(arm, folder, hits, worker, scheduler)
        cluster.produce(arm, first)

        def warm() -> bool:
            made.check()
            return counter.total(hits) >= first and not arm.unsettled()

        until(warm, "the first tasks to run", START)
        yield made
