"""The real loops at full speed: a ``tq scheduler`` process on a preloaded namespace.

Three windows per policy and number of tenants. *Admit*: no worker has announced itself, so the
scheduler only admits. *Dispatch*: everything is pending, then one worker announces room for all of
it. *End to end*: the same work again with the room announced first, both loops together. The worker
is an announcement only (the library's own ``renew``), so nothing but the scheduler is measured.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.experiments.ceiling.workload import NAMESPACE, QUEUE, preload
from bench.harness import cluster
from bench.harness.arms import TQArm
from bench.harness.errors import BenchError
from bench.harness.measure import (
    Calls,
    Sample,
    command_difference,
    movement,
    total_microseconds,
)
from bench.harness.process import Process
from bench.harness.servers import RedisServer
from tq_celery.store.contract import WorkerAnnouncement
from tq_celery.store.keys import Keys
from tq_celery.store.redis_store import RedisStore

__all__ = ["Ceiling", "Window", "ceiling"]

#: Seconds between two looks, and without progress before a run is void.
PAUSE, STALL = 0.02, 30.0
#: Lease of the announced worker in ms: longer than any run.
_LEASE = 3_600_000
_COUNTERS = Keys(NAMESPACE).name("counters")


@dataclass(frozen=True, slots=True)
class Window:
    """One measured window; microseconds are per task.

    ``script_us`` is the server's own account (``commandstats`` of scripts and blocking reads),
    ``server_us`` and ``scheduler_us`` the CPU time of the two processes.
    """

    per_s: float
    wall_s: float
    script_us: float
    server_us: float
    scheduler_us: float
    #: Profile: calls and server microseconds per task of each command, also inside the scripts.
    commands: dict[str, tuple[float, float]]

    @property
    def cpu_us(self) -> float:
        """CPU time of both processes per task: what one decision costs."""
        return self.server_us + self.scheduler_us


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The three windows of one policy and number of tenants."""

    admit: Window
    dispatch: Window
    end_to_end: Window


def ceiling(server: RedisServer, policy: str, tenants: int, tasks: int, seed: int) -> Ceiling:
    """Measure one policy with one number of tenants; BenchError when the work does not move."""
    arm = TQArm(server, policy=policy, namespace=NAMESPACE)
    store = preload(server, policy, tasks, tenants, seed)
    with contextlib.closing(store), cluster.scheduler(arm) as scheduler:
        admit = _window(server, scheduler, tasks, "pending")
        _announce(store, tasks)
        dispatch = _window(server, scheduler, tasks, "dispatched")
    store = preload(server, policy, tasks, tenants, seed)
    with contextlib.closing(store):
        _announce(store, tasks)
        with cluster.scheduler(arm) as scheduler:
            end_to_end = _window(server, scheduler, tasks, "dispatched")
    return Ceiling(admit, dispatch, end_to_end)


def _announce(store: RedisStore, tasks: int) -> None:
    store.renew(WorkerAnnouncement("bench", (QUEUE,), slots=2 * tasks, ahead=0), _LEASE)


@dataclass(frozen=True, slots=True)
class _Reading:
    calls: dict[str, Calls]
    server: float
    scheduler: float


def _window(server: RedisServer, scheduler: Process, tasks: int, state: str) -> Window:
    """Watch until ``tasks`` are in ``state``; start-up before the first one is left out."""
    samples: list[Sample] = []
    first: _Reading | None = None
    start = time.monotonic()
    for sample in _samples(server, scheduler, tasks, state):
        if first is None and sample.done > 0:
            first = _read(server, scheduler)
        samples.append(sample)
    last = _read(server, scheduler)
    if first is None:
        raise BenchError("the whole work moved between two looks: use more tasks")
    begun = next(sample for sample in samples if sample.done > 0)
    counted = tasks - begun.done
    if counted <= 0:
        raise BenchError("the whole work moved between two looks: use more tasks")
    calls = command_difference(first.calls, last.calls)
    return Window(
        per_s=movement([Sample(start, 0), *samples]),
        wall_s=samples[-1].at - begun.at,
        script_us=total_microseconds(calls) / counted,
        server_us=(last.server - first.server) / counted * 1e6,
        scheduler_us=(last.scheduler - first.scheduler) / counted * 1e6,
        commands={
            name: (round(one.calls / counted, 3), round(one.usec / counted, 3))
            for name, one in sorted(calls.items())
        },
    )


def _samples(server: RedisServer, scheduler: Process, tasks: int, state: str) -> Iterator[Sample]:
    done, moved = 0, time.monotonic()
    while done < tasks:
        time.sleep(PAUSE)
        now = int(server.client.hget(_COUNTERS, f"{state}:{QUEUE}") or 0)
        at = time.monotonic()
        if now > done:
            done, moved = now, at
        elif at - moved > STALL:
            raise BenchError(f"stuck with {done} of {tasks} tasks {state}")
        scheduler.check()
        yield Sample(at, done)


def _read(server: RedisServer, scheduler: Process) -> _Reading:
    return _Reading(server.command_calls(), server.cpu(), scheduler.cpu())
