"""The leader's guards: fence, trust window, and that admitting removes from ingress in one step."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.request import urlopen

from bench.experiments.guards.account import Shown
from bench.experiments.guards.scheduler import Faults
from bench.experiments.guards.stage import PATIENCE, Stage
from bench.harness.errors import BenchError
from bench.harness.failures import signals
from bench.harness.process import until
from bench.harness.proxy import FaultProxy
from tq_celery.embedded import free_port

__all__ = ["fence", "ingress", "trust_window"]

#: Tasks that wait where a superseded leader would dispatch them, and where one dies admitting.
LATE, MANY = 200, 2_000
#: Tasks that the dying leader reads at a time.
BATCH = 100
#: Seconds for which two leaders are looked for once the second one leads, and between two looks. A
#: leader without work writes every second.
LOOK, EVERY = 1.5, 0.02


def fence(stage: Stage, *, removed: bool) -> Shown:
    """Freeze a leader between its look at the clock and a dispatch, and supersede it meanwhile.

    Tasks wait in a paused queue. The old leader is frozen before its next dispatch; the new one
    writes under its own epoch and is frozen too; then the queue is opened and the old one goes on.
    """
    arm = stage.scene.folder / "freeze"
    stage.offer("q", "r")
    old = stage.scheduler(Faults(freeze=str(arm), patch="unfenced" if removed else ""))
    stage.leads(old)
    new = stage.scene.scheduler()
    stage.store.pause_queue("q")
    stage.submit(LATE)
    until(lambda: stage.counter("pending") == LATE, "all to be pending", PATIENCE)
    arm.touch()
    until(lambda: signals.state(old.pid) == "T", "the leader to freeze", PATIENCE)
    stage.leads(new)
    stage.submit(1, "r")
    until(lambda: stage.counter("dispatched", "r") == 1, "the new leader to write", PATIENCE)
    signals.freeze(new)
    stage.store.resume_queue("q")
    signals.resume(old)
    until(Path(f"{arm}-answered").exists, "the late dispatch to be answered", PATIENCE)
    signals.resume(new)
    stage.settle_all("q", "r")
    if not removed and not stage.fenced():
        raise BenchError("guards, fence: the late dispatch was not refused")
    return stage.shown(refused=stage.fenced())


def trust_window(stage: Stage, *, removed: bool) -> Shown:
    """Hold back the leader's renewals and nothing else, and see how long it believes that it leads.

    A write of a leader whose lease is over is known by the fence, which refuses it.
    """
    stage.offer("q")
    ports = [free_port(), free_port()]
    with FaultProxy(stage.server.port) as proxy:
        faults = Faults(election=f"redis://127.0.0.1:{proxy.port}/0", trusting=removed)
        old = stage.scheduler(faults, env={"TQ_METRICS_PORT": str(ports[0])})
        stage.leads(old)
        new = stage.scheduler(Faults(), env={"TQ_METRICS_PORT": str(ports[1])})
        proxy.stall()
        stage.leads(new)
        looked = over = time.monotonic()
        both = 0.0
        while looked < over + LOOK:
            time.sleep(EVERY)
            leading = sum(map(_is_leader, ports))
            before, looked = looked, time.monotonic()
            both += (looked - before) * (leading > 1)
        late = stage.fenced()
        proxy.heal()
        stage.submit(LATE)
        stage.settle_all()
    return stage.shown(late_writes=late, two_leaders=round(both, 2), refused=late)


def _is_leader(port: int) -> bool:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    return "tq_scheduler_is_leader 1" in (line.removesuffix(".0") for line in lines)


def ingress(stage: Stage, *, removed: bool, when: str) -> Shown:
    """Kill a leader around its first call that admits, and let another one go on.

    ``when``: ``read``, what was read is removed from ingress at once, and the leader dies before it
    admits; ``later``, it is removed after it was admitted, and the leader dies in between.
    """
    stage.submit(MANY)
    stage.offer("q")
    faults = (
        Faults(die="before", take=removed) if when == "read"
        else Faults(die="after", patch="admit apart" if removed else "")
    )  # fmt: skip
    old = stage.scheduler(faults, wait=False, env={"TQ_BATCH": str(BATCH)})
    until(lambda: not old.alive, "the leader to die", PATIENCE)
    if old.code != -9:
        old.check()
    stage.leads(stage.scene.scheduler())
    stage.settle_all()
    return stage.shown()
