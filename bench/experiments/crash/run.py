"""One crash: a worker that holds tasks is killed while it settles some, and another one starts."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from baseline import events as recording
from bench.experiments.crash.account import Account, account
from bench.experiments.crash.arms import Side, side
from bench.experiments.crash.producer import FIRST
from bench.experiments.crash.tasks import ALL, GATES
from bench.harness import cluster
from bench.harness.errors import BenchError
from bench.harness.events import Event, Tail
from bench.harness.process import Process, until
from bench.harness.proxy import FaultProxy
from bench.harness.servers import RedisServer

__all__ = ["Crash", "Plan", "crash"]

#: Seconds for a worker to start and take what it can hold.
START = 60.0
#: Seconds beyond four leases for the rest to be settled.
PATIENCE = 60.0
#: Seconds after the last settlement in which another one would show.
AFTERWARDS = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """``tasks`` in all, ``held`` by the worker that dies, ``settled`` of these at the server.

    ``lease`` is our lease and stock Celery's visibility timeout, in seconds.
    """

    tasks: int = 200
    held: int = 100
    settled: int = 10
    lease: float = 10.0


@dataclass(frozen=True, slots=True)
class Crash:
    """What was found; seconds are counted from the kill.

    ``unanswered`` is the requests to settle that arrived and were never answered; ``broken`` are
    promises, in words.
    """

    account: Account
    unanswered: int
    first_again: float
    all_settled: float
    left: int
    broken: list[str]

    @property
    def passed(self) -> bool:
        """Whether every task was settled once, nothing is left, and no promise was broken."""
        return self.account.passed and not self.left and not self.broken


def crash(name: str, server: RedisServer, plan: Plan) -> Crash:
    """Run one crash of one arm.

    Raises BenchError when the scene cannot be set (the worker holds more or fewer tasks, or the
    wrong ones are settled) or when the rest is not settled in time.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-crash-")))
        one = stack.enter_context(side(name, server, plan.lease))
        proxy = stack.enter_context(FaultProxy(server.port))
        records = [folder / f"events-{number}" for number in (1, 2)]
        for path in records:
            path.touch()
        tail = stack.enter_context(contextlib.closing(Tail(records)))
        if one.arm.scheduled:
            stack.enter_context(cluster.scheduler(one.arm))
        _send(one, 0, plan.held)
        worker = stack.enter_context(_worker(one, plan, folder, 1, proxy.port))
        seen = _strand(one, plan, folder, worker, tail, proxy)
        before = one.settled()
        if len(before) != plan.settled:
            raise BenchError(f"crash, {name}: {dict(before)} were settled before the kill")
        if not proxy.swallowed:
            raise BenchError(f"crash, {name}: the worker got an answer to everything it settled")

        worker.signal(signal.SIGKILL)
        killed = time.monotonic()
        (folder / ALL).touch()
        _send(one, plan.held, plan.tasks - plan.held)
        second = stack.enter_context(_worker(one, plan, folder, 2, server.port))

        def over() -> bool:
            second.check()
            return len(one.settled()) >= plan.tasks and not one.arm.unsettled()

        until(over, f"the rest of {name} to be settled", 4 * plan.lease + PATIENCE, pause=0.1)
        finished = time.monotonic()
        time.sleep(AFTERWARDS)
        second.stop()
        seen += tail.read()
        found = account(plan.tasks, one.settled(), set(before), seen)
        stranded = {event.job for event in seen if event.source == 0}
        again = [event.at for event in seen if event.source == 1 and event.job in stranded]
        first_again = min(again, default=killed) - killed
        return Crash(
            found, proxy.swallowed, first_again, finished - killed, one.arm.left(), one.broken()
        )


def _send(one: Side, first: int, count: int) -> None:
    if count:
        cluster.produce(
            one.arm, count, program="bench.experiments.crash.producer", env={FIRST: str(first)}
        )


def _worker(one: Side, plan: Plan, folder: Path, number: int, port: int) -> Process:
    env: Mapping[str, str] = {
        **one.env(port),
        GATES: str(folder),
        recording.VARIABLE: str(folder / f"events-{number}"),
    }
    return cluster.worker(
        one.arm, "threads", concurrency=plan.held, number=number, prefetch=1, env=env
    )


def _strand(
    one: Side, plan: Plan, folder: Path, worker: Process, tail: Tail, proxy: FaultProxy
) -> list[Event]:
    """Let the worker fill up and settle tasks without learning of it; return its events so far."""
    seen: list[Event] = []

    def full() -> bool:
        worker.check()
        seen.extend(tail.read())
        return len(seen) >= plan.held

    until(full, "the worker to be full", START)
    if one.held() != plan.held:
        raise BenchError(f"crash: the worker holds {one.held()} tasks instead of {plan.held}")
    # Those that cannot be on their way together are settled with an answer first.
    answered = max(0, plan.settled - one.at_once)
    _settle(one, folder, worker, [event.job for event in seen[:answered]], 0)
    proxy.swallow(*one.settling)
    _settle(one, folder, worker, [event.job for event in seen[answered : plan.settled]], answered)
    seen.extend(tail.read())
    return seen


def _settle(one: Side, folder: Path, worker: Process, jobs: list[int], already: int) -> None:
    """Let ``jobs`` end and wait until the server calls them settled."""
    for job in jobs:
        (folder / str(job)).touch()

    def settled() -> bool:
        worker.check()
        return len(one.settled()) >= already + len(jobs)

    until(settled, f"{already + len(jobs)} tasks to be settled", START)
