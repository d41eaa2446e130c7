"""The processes of one cell: scheduler, workers and the producer, from their start to their end."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from baseline import events as recording
from baseline import failing
from bench.harness import cluster
from bench.harness.arms import Arm
from bench.harness.cell import Cell, Profile
from bench.harness.errors import BenchError
from bench.harness.events import Account, Tail
from bench.harness.process import Process, busy_seconds, until

__all__ = ["Cpu", "Fleet"]

#: Seconds that a task of the warm-up takes: long enough for every slot to get one before the first
#: is done, short enough not to matter.
WARM_SECONDS = 0.1
#: Seconds within which every slot has to have run something.
WARM_TIMEOUT = 60.0


class Cpu(NamedTuple):
    """CPU seconds so far of workers, scheduler, server and producer, and the server's own account.

    ``server_us`` is in microseconds, see :meth:`bench.harness.arms.Arm.server_us`. ``driver`` is
    this process, ``machine`` all there are on the machine, ``at`` the moment.
    """

    worker: float = 0.0
    scheduler: float = 0.0
    server: float = 0.0
    producer: float = 0.0
    server_us: float = 0.0
    driver: float = 0.0
    machine: float = 0.0
    at: float = 0.0

    def since(self, before: Cpu) -> Cpu:
        """Return what was used after ``before``; ``at`` is then for how long."""
        return Cpu(*(now - was for now, was in zip(self, before, strict=True)))

    @property
    def others(self) -> float | None:
        """The cores that processes of nobody here kept busy; of what :meth:`since` returns."""
        own = self.worker + self.scheduler + self.server + self.producer + self.driver
        # All are counted in ticks, some a moment before the others.
        return max(0.0, self.machine - own) / self.at if self.at > 0 else None


@dataclass(frozen=True, slots=True)
class Files:
    """Where the processes of a cell write: a folder of its own."""

    folder: Path
    workers: int

    @property
    def plan(self) -> Path:
        """What the producer reads."""
        return self.folder / "plan"

    @property
    def attempts(self) -> Path:
        """One byte a job: attempts at it so far."""
        return self.folder / "attempts"

    @property
    def sent(self) -> Path:
        """What the producer writes."""
        return self.folder / "sent"

    def bodies(self, number: int) -> Path:
        """Return what worker ``number`` writes."""
        return self.folder / f"worker-{number}"

    def create(self) -> list[Path]:
        """Make the files that are written to, empty, and return them: the workers' first."""
        paths = [*map(self.bodies, range(self.workers)), self.sent]
        for path in paths:
            path.touch()
        return paths


class Fleet:
    """A context manager; all processes start side by side, and end so.

    Raises BenchError when one of them does not start.
    """

    def __init__(
        self, arm: Arm, cell: Cell, profile: Profile, seed: int, files: Files, python: str
    ) -> None:
        self._arm, self._slots = arm, profile.slots
        self._stack = contextlib.ExitStack()
        self.scheduler: Process | None = None
        self.workers: list[Process] = []
        try:
            if arm.scheduled:
                self.scheduler = self._enter(cluster.scheduler(arm, python))
            for number in range(profile.workers):
                env = {recording.VARIABLE: str(files.bodies(number))}
                if profile.failure:
                    env[failing.VARIABLE] = f"{profile.failure} {seed} {files.attempts}"
                worker = cluster.worker(
                    arm, profile.pool, prefetch=arm.prefetch, env=env, python=python,
                    concurrency=profile.slots // profile.workers, number=number,
                )  # fmt: skip
                self.workers.append(self._enter(worker))
            producer = cluster.sender(arm, files.plan, files.sent, cell.exec, python)
            self.producer = self._enter(producer)
        except BaseException:
            self._stack.close()
            raise

    def _enter(self, process: Process) -> Process:
        return self._stack.enter_context(process)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if not self._arm.scheduled:
                # An idle stock worker may take ten seconds to notice that it is asked to stop. What
                # it ran is on record, and what its broker still has is deleted.
                for worker in self.workers:
                    worker.signal(signal.SIGKILL)
            # Asked together: each takes its time, and the time of all is that of the slowest.
            for process in self.processes:
                process.ask_to_stop()
        finally:
            # Also when a second Ctrl-C arrives in between.
            self._stack.close()

    @property
    def processes(self) -> list[Process]:
        """Every process, the producer last."""
        return [*filter(None, [self.scheduler]), *self.workers, self.producer]

    def check(self) -> None:
        """Raise BenchError with the last line of a process that has ended."""
        for process in self.processes:
            process.check()

    def dead(self) -> Process | None:
        """Return a process that has ended by itself, if there is one."""
        return next((process for process in self.processes if not process.alive), None)

    def warm_up(self, account: Account, tail: Tail) -> None:
        """Run tasks until every slot of every worker has run one, and all of them are settled.

        Raises BenchError with the last lines of the processes after :data:`WARM_TIMEOUT` seconds.
        """
        end, sent = time.monotonic() + WARM_TIMEOUT, 0
        while len(account.executors) < self._slots:
            sent += self._slots
            self.producer.tell(f"warm {self._slots} {WARM_SECONDS}")
            self._look(account, tail, partial(_ran, account, sent), end)
        self._look(account, tail, lambda: not self._arm.unsettled(), end)
        # What was settled last is announced as free slots.
        time.sleep(WARM_SECONDS)

    def _look(
        self, account: Account, tail: Tail, condition: Callable[[], bool], end: float
    ) -> None:
        def reached() -> bool:
            self.check()
            for event in tail.read():
                account.apply(event)
            return condition()

        try:
            until(reached, "every slot to run a first task", max(0.0, end - time.monotonic()))
        except BenchError as error:
            words = "; ".join(f"{each.name}: {each.tail(1)}" for each in self.processes)
            raise BenchError(f"{self._arm.name}: {error.message} ({words})") from None

    def cpu(self) -> Cpu:
        """Return what the processes and the server have used so far."""
        return Cpu(
            sum(worker.cpu() for worker in self.workers),
            self.scheduler.cpu() if self.scheduler else 0.0,
            self._arm.server_cpu(),
            self.producer.cpu(),
            self._arm.server_us(),
            time.process_time(),
            busy_seconds(),
            time.monotonic(),
        )


def _ran(account: Account, tasks: int) -> bool:
    return account.warm >= tasks
