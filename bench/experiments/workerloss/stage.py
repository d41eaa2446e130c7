"""The scene of this experiment: its processes, what is ordered to be sent, and what has run."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.experiments.soak.account import Run, read_runs
from bench.harness.failures.scene import Scene
from bench.harness.process import Process, until

__all__ = ["APP", "PATIENCE", "SLOTS", "Plan", "Stage", "staged"]

#: Slots of a worker, by pool.
SLOTS = {"prefork": 3, "threads": 4, "solo": 1, "gevent": 4}
APP = "bench.experiments.workerloss.app"
#: Seconds for processes to start and for tasks to run.
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """``lease`` in seconds; ``server`` is redis or valkey."""

    lease: float = 5.0
    server: str = "redis"


class Stage:
    """A scene with a sender; leaving the scene does not end the sender, :meth:`close` does."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.ordered = 0
        self._accepted = scene.folder / "accepted"
        self._accepted.touch()
        self._sender = Process(
            "sender",
            [sys.executable, "-m", "bench.experiments.workerloss.sender", str(self._accepted)],
            scene.env, listens=True,
        )  # fmt: skip

    def close(self) -> None:
        """End the sender."""
        self._sender.stop()

    def send(self, task: str, args: list[object], count: int, rate: float = 0.0) -> None:
        """Have ``count`` tasks sent, ``rate`` per second (0: at once)."""
        self.ordered += count
        self._sender.tell(json.dumps({"task": task, "args": args, "count": count, "rate": rate}))

    def chord(self, others: int) -> None:
        """Have a chord sent of the task that kills its process and ``others``."""
        self.ordered += others + 2  # its body has a line as well
        self._sender.tell(json.dumps({"chord": others}))

    def accepted(self) -> dict[str, str]:
        """Return the name of each accepted task by its id, in the order in which they were sent."""
        lines = self._accepted.read_text().splitlines(keepends=True)
        pairs = (line.split() for line in lines if line.endswith("\n"))
        return dict(pairs)

    def sent(self) -> None:
        """Wait until everything that was ordered is accepted; raises BenchError."""
        self.wait(lambda: len(self.accepted()) >= self.ordered, "all to be sent")

    def wait(self, condition: Callable[[], bool], what: str, timeout: float = PATIENCE) -> None:
        """Wait for ``condition``; raises BenchError, at once when the sender has failed."""

        def met() -> bool:
            self._sender.check()
            return condition()

        until(met, what, timeout)

    def runs(self) -> list[Run]:
        """Return every start of a body."""
        return read_runs(self.scene.runs)

    def started(self, name: str) -> int:
        """Return how many bodies of tasks called ``name`` have started."""
        names = self.accepted()
        return sum(names.get(run.key[0]) == name for run in self.runs())

    def hold(self, gate: str, count: int, running: int) -> Path:
        """Send ``count`` tasks that hold their slots; return their gate once so many more run."""
        before, path = self.started("workerloss.hold"), self.scene.folder / gate
        self.send("workerloss.hold", [str(path)], count)
        self.wait(
            lambda: self.started("workerloss.hold") >= before + running,
            f"{running} tasks to run side by side",
        )
        return path


@contextlib.contextmanager
def staged(
    url: str, plan: Plan, env: Mapping[str, str], label: str, backend: str = ""
) -> Iterator[Stage]:
    """Yield a stage without schedulers and workers."""
    with Scene(url, lease=plan.lease, env=env, namespace=label, backend=backend) as scene:
        stage = Stage(scene)
        try:
            yield stage
        finally:
            stage.close()
