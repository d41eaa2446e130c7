"""The processes of a trial, who of them has led, and how one trial runs its course."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bench.experiments.storefault.account import Lead, leads
from bench.experiments.storefault.plan import Arm
from bench.harness.failures import signals
from bench.harness.failures.load import Load
from bench.harness.failures.scene import Scene
from bench.harness.process import Process, until
from bench.harness.sentinels import Death

__all__ = ["Cast", "Course"]

SCHEDULERS = 3
#: Seconds for a scheduler to lead after a failover, on a machine that has other work.
LEADS = 60.0
PLAIN = ("-m", "bench.experiments.storefault.plain_scheduler")


class Course(NamedTuple):
    """What was done: the loads, and the state in which the primary died.

    ``died`` is when, in monotonic seconds: what was accepted until then may be destroyed.
    """

    loads: Sequence[Load]
    died: float
    fault: Death


class Cast:
    """The processes of a trial, and what their logs say of terms."""

    def __init__(self, arm: Arm, scene: Scene, slots: int) -> None:
        self._arm, self._scene, self._slots = arm, scene, slots

    def enter(self, schedulers: int = SCHEDULERS, *, worker: bool = True) -> None:
        """Start schedulers, and then a worker."""
        before = len(self._scene.schedulers)
        for _ in range(schedulers):
            if self._arm.plain:
                self._scene.scheduler(program=PLAIN, wait=False)
            else:
                self._scene.scheduler(wait=False)
        new = self._scene.schedulers[before:]
        until(
            lambda: all("scheduler started" in each.output() for each in new),
            "the schedulers to start", LEADS,
        )  # fmt: skip
        if worker:
            self._scene.worker("threads", self._slots)

    def terms(self) -> list[Lead]:
        """Return every term so far, of schedulers that have ended too."""
        return leads(each.output() for each in self._scene.schedulers)

    def leader(self, known: Sequence[Lead]) -> Process | None:
        """Return the living scheduler that began a term which is not in ``known``."""
        for process in self._scene.schedulers:
            if process.alive and set(leads([process.output()])) - set(known):
                return process
        return None

    def await_leader(self, known: Sequence[Lead]) -> Process:
        """Wait for a term which is not in ``known``; raises BenchError."""
        found: list[Process | None] = []

        def there() -> bool:
            found[:] = [self.leader(known)]
            return found[0] is not None

        until(there, "a scheduler to lead", LEADS)
        assert found[0] is not None
        return found[0]

    def end(self, *, workers: bool) -> None:
        """Kill all schedulers, and what they know of epochs with them."""
        for process in (*self._scene.schedulers, *(self._scene.workers if workers else ())):
            signals.kill(process)

    def await_newer(self, known: Sequence[Lead]) -> None:
        """Wait until a scheduler leads under an epoch above all ``known``; raises BenchError."""
        highest = max(epoch for epoch, _ in known)
        until(
            lambda: self.terms()[-1].epoch > highest, f"an epoch above {highest} to be led under",
            LEADS,
        )  # fmt: skip
