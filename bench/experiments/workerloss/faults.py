"""What is done to a worker, each confirmed: a fault that does not come about would pass."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from bench.experiments.workerloss.look import held
from bench.experiments.workerloss.memory import MemoryGroup
from bench.experiments.workerloss.names import EAT, KILLED
from bench.experiments.workerloss.stage import PATIENCE, Stage
from bench.harness.clocks import Clock
from bench.harness.errors import BenchError
from bench.harness.failures.signals import freeze, kill, state
from bench.harness.process import Process, until

__all__ = ["FAULTS", "MEMORY", "STANDS", "STEPS", "Hit", "Victim"]

#: Bytes that a worker may take from the moment at which it is to run out of memory.
MEMORY = 96 * 2**20
#: Steps of the host's clock, in seconds from the right time.
STEPS = (3600, -3600)
#: Leases that each step stands: had nobody renewed, the lease would have run out.
STANDS = 1.5


@dataclass(frozen=True, slots=True)
class Victim:
    """The worker: its process, its name in the records, and what it can be hit with.

    Without ``memory``, a limit that it lives under, running out of memory is played by SIGKILL.
    ``clock`` is that of its host: the scheduler and the other worker have the same.
    """

    stage: Stage
    process: Process
    name: str
    lease: float
    memory: MemoryGroup | None
    clock: Clock | None

    def held(self) -> set[str]:
        """Return the ids of the tasks that it has read and not settled."""
        return held(self.stage.scene, self.name)


@dataclass(frozen=True, slots=True)
class Hit:
    """A fault that has come about: what it was here, what it took, from when to when it was done.

    Times are monotonic seconds. Nothing that was taken can have started again before ``over``.
    """

    how: str
    taken: Collection[str]
    at: float
    over: float


def _kill(victim: Victim) -> Hit:
    at = time.monotonic()
    kill(victim.process)
    return Hit("SIGKILL to worker and children", victim.held(), at, time.monotonic())


def _freeze(victim: Victim) -> Hit:
    at = time.monotonic()
    freeze(victim.process)
    return Hit("SIGSTOP to worker and children", victim.held(), at, time.monotonic())


def _oom(victim: Victim) -> Hit:
    """Let one body take more memory than there is; raises BenchError when that kills nothing."""
    folder, memory = victim.stage.scene.folder, victim.memory
    (folder / f"{EAT}.new").write_text("memory" if memory else "nothing")
    (folder / f"{EAT}.new").rename(folder / EAT)
    victim.stage.wait((folder / KILLED).exists, "a body to take memory")
    word, task_id = (folder / KILLED).read_text().split()
    pid = int(word)
    if not memory:
        os.kill(pid, signal.SIGKILL)
    until(lambda: state(pid) in ("Z", ""), "the process to be killed", PATIENCE, 0.002)
    at = time.monotonic()
    if memory and not memory.kills:
        raise BenchError(f"process {pid} ended, and not because it had no memory left")
    how = "killed by the kernel at a limit of memory" if memory else "SIGKILL"
    if pid != victim.process.pid:
        return Hit(f"child: {how}", {task_id}, at, at)
    until(lambda: not victim.process.alive, "the worker to be gone", PATIENCE)
    return Hit(f"worker's process: {how}", victim.held(), at, at)


def _clock(victim: Victim) -> Hit:
    """Step the clock ahead and back, each for longer than a lease; nothing is taken by that."""
    if victim.clock is None:
        raise ValueError("there is no clock to step")
    at = time.monotonic()
    for shift in STEPS:
        victim.clock.step(shift)
        end = time.monotonic() + STANDS * victim.lease
        while time.monotonic() < end:
            victim.process.check()
            time.sleep(0.1)
    return Hit("host's clock stepped 1 h ahead, then 2 h back", (), at, time.monotonic())


FAULTS: Mapping[str, Callable[[Victim], Hit]] = {
    "kill": _kill,
    "freeze": _freeze,
    "oom": _oom,
    "clock": _clock,
}
