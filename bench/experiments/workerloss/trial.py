"""One trial: a worker full of tasks, another of its kind beside it, and a fault to the first."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.experiments.workerloss.account import Account, account, longest_pause
from bench.experiments.workerloss.faults import FAULTS, MEMORY, STANDS, STEPS, Hit, Victim
from bench.experiments.workerloss.look import name_of, stamp_error
from bench.experiments.workerloss.memory import memory_group
from bench.experiments.workerloss.stage import APP, PATIENCE, SLOTS, Plan, Stage, staged
from bench.harness import books
from bench.harness.clocks import Clocks
from bench.harness.failures.records import stale
from bench.harness.failures.signals import descendants, resume, state
from bench.harness.servers import redis_server

__all__ = ["Trial", "trial"]

#: Short tasks per second that go on all the while, and the seconds that each takes.
RATE, SHORT = 20.0, 0.02
#: Short tasks that have run before the fault: there is a load.
WARM = 5
#: Seconds that a worker which goes on gets to misbehave, and in which too many tasks would start.
AFTERWARDS = 2.0


@dataclass(frozen=True, slots=True)
class Trial:
    """What was found. ``how`` is what the fault was on this machine.

    ``slots`` are those of the workers that were left, ``used`` the tasks that ran side by side in
    them afterwards. ``refused`` are settlements that came too late, ``orphans`` the processes that
    a dead worker left. ``pause`` is the longest time without a start from the fault to the
    recovery, in seconds, ``stamps_ms`` the greatest error of a stamp, ``stale`` the dispatches
    under an epoch that was over, ``left`` what is not empty in the end, and ``violations`` the
    promises that ``tq verify`` found broken.
    """

    pool: str
    fault: str
    how: str
    account: Account
    slots: int
    used: int
    refused: int
    orphans: int
    pause: float
    stamps_ms: float
    stale: int
    left: Mapping[str, int]
    violations: Sequence[str]


def trial(pool: str, fault: str, plan: Plan, label: str) -> Trial:
    """Run one trial; raises BenchError when the scene cannot be set or does not come to rest.

    No other trial may have the same ``label`` at the same time.
    """
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(redis_server(plan.server))
        env, clock, memory = dict[str, str](), None, None
        if fault == "oom":
            memory = stack.enter_context(memory_group(label, MEMORY))
        if fault == "clock":
            place = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-workerloss-"))
            clock = Clocks(Path(place)).shifted(0)
            env |= clock.environ
        with staged(server.url(), plan, env, label) as stage:
            scene, slots = stage.scene, SLOTS[pool]
            scene.scheduler(wait=False)
            process = scene.worker(pool, slots, app=APP)
            victim = Victim(stage, process, name_of(scene, process), plan.lease, memory, clock)
            return _run(victim, pool, fault)


def _run(victim: Victim, pool: str, fault: str) -> Trial:
    stage, scene, slots = victim.stage, victim.stage.scene, SLOTS[pool]
    # One slot is left to short tasks, where there is more than one.
    holders = max(1, slots - 1)
    gate = stage.hold("gate", holders, holders)
    family = [victim.process.pid, *descendants(victim.process.pid)]
    if victim.memory:
        victim.memory.add(family)
    scene.worker(pool, slots, app=APP)
    leases = STANDS * (len(STEPS) if fault == "clock" else 1)
    stage.send("failures.work", [SHORT], round(RATE * leases * victim.lease), RATE)
    stage.wait(lambda: stage.started("failures.work") >= WARM, "a load")

    hit = FAULTS[fault](victim)
    stage.wait(lambda: _back(stage, hit), "what was lost to run again", 4 * victim.lease + PATIENCE)
    back, alive = time.monotonic(), victim.process.alive
    orphans = 0 if alive else sum(state(pid) not in ("Z", "") for pid in family)
    if fault == "freeze":
        time.sleep(max(0.0, hit.at + STANDS * victim.lease - time.monotonic()))
        resume(victim.process)
        time.sleep(AFTERWARDS)
    gate.touch()
    stage.sent()
    scene.drained(PATIENCE)
    # Nothing is under way: every slot is free, and no more than these.
    free = slots * (2 if alive else 1)
    used = _fill(stage, free)
    runs, names = stage.runs(), stage.accepted()
    records = scene.records()
    balance = account(
        dict.fromkeys(names, "completed"), runs, records, hit.taken, victim.name, hit.at, hit.over
    )
    return Trial(
        pool, fault, hit.how, balance, free, used,
        books.counters(scene.client, scene.keys)["resettled"], orphans,
        longest_pause(runs, hit.at, back), stamp_error(scene.client, scene.keys),
        len(stale(records)), scene.left(), scene.broken(),
    )  # fmt: skip


def _back(stage: Stage, hit: Hit) -> bool:
    """Whether everything that was taken has started again, or was settled at the last moment."""
    waiting = set(hit.taken) - {run.key[0] for run in stage.runs() if run.started > hit.over}
    return not waiting or waiting <= {each.key[0] for each in stage.scene.records()}


def _fill(stage: Stage, slots: int) -> int:
    """Send more tasks than there are ``slots``; return how many run side by side."""
    before = stage.started("workerloss.hold")
    gate = stage.hold("gate-after", 2 * slots, slots)
    time.sleep(AFTERWARDS / 2)
    used = stage.started("workerloss.hold") - before
    gate.touch()
    stage.sent()
    stage.scene.drained(PATIENCE)
    return used
