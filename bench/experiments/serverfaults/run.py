"""One fault, done once: processes at work, the fault, and the books afterwards."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench.experiments.serverfaults.account import Trial, again, missing
from bench.experiments.serverfaults.loglines import volume
from bench.experiments.serverfaults.plan import Fault, Plan
from bench.experiments.serverfaults.pulse import Beat, Pulse, between, resumed, standstill
from bench.experiments.serverfaults.server import FaultServer
from bench.harness.clocks import Clocks
from bench.harness.errors import BenchError
from bench.harness.failures.records import settled_twice
from bench.harness.failures.scene import Scene
from bench.harness.process import Process, until
from tq_celery.store.verify import verify

__all__ = ["trial"]

#: Pools of the two workers with their slots.
POOLS = {"threads": 12, "prefork": 4}
#: What is counted at each look.
COUNTED = ("dispatched", "settled")
#: Seconds after the beginning of a fault from which on, and before its end up to which, processes
#: wait and nothing else.
SETTLED, BEFORE_END = 0.5, 0.4
#: Seconds for which going on is waited for, and for everything to be settled.
PATIENCE, REST = 20.0, 40.0
#: Seconds from the start of the load until the fault: producers start, tasks flow.
LEAD = 2.0


def trial(name: str, fault: Fault, plan: Plan, kind: str, broker: str) -> Trial:
    """Do ``fault`` to a server of ``kind``; ``broker`` is the address of another one."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_server(fault, kind, stack))
        scene = stack.enter_context(Scene(server.url, broker=broker, lease=fault.lease))
        _start(scene, fault, plan)
        pulse = stack.enter_context(Pulse(server.port, scene.keys))
        standing = [*scene.schedulers, *scene.workers]
        judged = [*standing, scene.loads[0].process]
        with fault.happens(server, fault.lasts) as span:
            cpu = _watched(judged, span.began, fault) if fault.waits else {}
        began, ended = span.began, span.over or time.monotonic()
        trouble = list(_at_rest(scene, pulse.beats, ended))
        records = scene.records()
        accepted = {task_id: at for load in scene.loads for task_id, at in load.accepted().items()}
        bodies = scene.bodies()
        ends = [(each.id, each.at) for each in bodies if each.ended]
        settled, beats = [each.key[0] for each in records], pulse.beats
        flow = max(scene.loads[0].accepted().values())
        verified = verify(scene.client, scene.keys)
        return Trial(
            fault=name,
            dispatch=resumed(beats, ended, "dispatched"),
            settlement=resumed(beats, ended, "settled"),
            standstill=max(standstill(beats, ended, flow, what) for what in COUNTED),
            lasted=ended - began,
            accepted=len(accepted),
            lost=missing(accepted, settled, (task_id for task_id, _ in ends), began, ended),
            settled_twice=len(settled_twice(records)),
            again=again(each.id for each in bodies if not each.ended),
            dispatched_during=between(beats, began + SETTLED, ended, "dispatched"),
            settled_during=between(beats, began, ended, "settled"),
            ended_during=sum(began + 0.1 < at < ended - BEFORE_END for _, at in ends),
            log={each.name: volume(each.output()) for each in judged},
            cpu=cpu,
            violations=[
                f"{each.promise} {each.id}: {each.message}" for each in verified.violations
            ],
            unseen=verified.horizon.limits,
            trouble=[*trouble, *(f"{each.name} ended" for each in standing if not each.alive)],
        )


def _server(fault: Fault, kind: str, stack: contextlib.ExitStack) -> FaultServer:
    clock = None
    if fault.clock:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-clocks-"))
        clock = Clocks(Path(folder)).shifted(0)
    return FaultServer(kind, fault.appendfsync, clock)


def _start(scene: Scene, fault: Fault, plan: Plan) -> None:
    """Start everything, and return when tasks flow and those beside them run."""
    scene.scheduler(wait=False)
    scene.scheduler(wait=False)
    for pool, slots in POOLS.items():
        scene.worker(pool, slots, wait=False)
    for worker in scene.workers:
        scene.announced(worker)
    scene.await_leader()
    lasts = fault.lasts
    scene.load(plan.rate, LEAD + lasts + plan.after)
    for count, seconds, seed in (
        (plan.short, LEAD + lasts / 2, 2),
        (plan.long, LEAD + lasts + plan.after / 2, 3),
    ):
        scene.load(count / 0.1, 0.1, args=(seconds,), seed=seed, batch=count)
    wanted = plan.short + plan.long
    until(
        lambda: len(scene.loads[1].accepted()) + len(scene.loads[2].accepted()) >= wanted,
        "the tasks beside the load to be accepted", 30,
    )  # fmt: skip
    beside = {*scene.loads[1].accepted(), *scene.loads[2].accepted()}
    until(
        lambda: beside <= {each.id for each in scene.bodies()},
        "the tasks beside the load to run", 30,
    )  # fmt: skip
    until(lambda: scene.settled() > plan.rate / 2, "tasks to flow", 30)


def _watched(judged: list[Process], began: float, fault: Fault) -> Mapping[str, float]:
    """Sleep while the fault lasts; return the share of a core that each process used."""
    _sleep_until(began + SETTLED)
    marks = {each.name: (time.monotonic(), each.cpu()) for each in judged}
    _sleep_until(began + fault.lasts - BEFORE_END)
    used = {
        each.name: (each.cpu() - marks[each.name][1]) / (time.monotonic() - marks[each.name][0])
        for each in judged
    }
    _sleep_until(began + fault.lasts)
    return used


def _sleep_until(at: float) -> None:
    time.sleep(max(0.0, at - time.monotonic()))


def _at_rest(scene: Scene, beats: list[Beat], ended: float) -> Iterator[str]:
    """Wait until work has gone on and everything is settled; yield what did not come about."""
    steps: tuple[Callable[[], None], ...] = (
        lambda: until(
            lambda: all(
                resumed(beats[:], ended, what) is not None for what in COUNTED
            ),
            "dispatch and settlement to go on", PATIENCE, 0.1,
        ),
        lambda: _finish(scene),
        lambda: scene.drained(REST),
    )  # fmt: skip
    for step in steps:
        try:
            step()
        except BenchError as error:
            yield str(error)


def _finish(scene: Scene) -> None:
    for load in scene.loads:
        load.finish()
