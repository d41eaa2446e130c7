"""One storm through Celery's own worker, as fast as this machine lets it fail."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.experiments.retrystorm.app import FAILURES, FILE, SEED
from bench.experiments.retrystorm.moments import Moments
from bench.experiments.retrystorm.producer import NAME
from bench.harness import cluster
from bench.harness.arms import TQArm
from bench.harness.errors import BenchError
from bench.harness.process import until
from bench.harness.servers import RedisServer
from tq_celery.store.keys import Keys

__all__ = ["storm"]

APP = "bench.experiments.retrystorm.app"


def storm(server: RedisServer, name: str, tasks: int, failures: int, seed: int) -> Moments:
    """Run one arm to its end; raises BenchError when a task is lost or tried too often."""
    arm = replace(TQArm(server), app=APP)
    arm.reset()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-storm-")))
        file = folder / "moments"
        file.touch()
        env = {FILE: str(file), FAILURES: str(failures), SEED: str(seed), NAME: name}
        scheduler = stack.enter_context(cluster.scheduler(arm))
        worker = stack.enter_context(cluster.worker(arm, "threads", env=env))
        leader = Keys(arm.namespace).name("leader")
        until(lambda: bool(server.client.exists(leader)), "the scheduler to lead", 30)
        cluster.produce(arm, tasks, program="bench.experiments.retrystorm.producer", env=env)

        def over() -> bool:
            worker.check()
            scheduler.check()
            return _lines(file).count(f"start {failures}") >= tasks and not arm.unsettled()

        until(over, f"the storm {name} to end", 60 + 12 * failures, pause=0.25)
        moments = _read(file)
    expected = (tasks, tasks * failures, tasks * failures)
    if tuple(map(len, moments)) != expected:
        raise BenchError(f"{name}: {tuple(map(len, moments))} tries, expected {expected}")
    return moments


def _lines(file: Path) -> list[str]:
    """Return kind and try of every complete line."""
    return [line.rpartition(" ")[0] for line in file.read_text().split("\n")[:-1]]


def _read(file: Path) -> Moments:
    found = Moments([], [], [])
    for line in file.read_text().split("\n")[:-1]:
        kind, retries, moment = line.split()
        if kind == "due":
            found.due.append(float(moment))
        else:
            (found.started if int(retries) else found.failed).append(float(moment))
    return found
