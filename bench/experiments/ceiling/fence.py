"""What the epoch check costs: the library's scripts against the same scripts without it.

The inert scripts exist only here: they are made from the library's text by leaving out the lines
of the check, so nothing in the library can switch the fence off. Blocks of work alternate between
the two (live, inert, inert, live, ...) in one run on one namespace, so that drift of the machine
and the shrinking backlog meet both alike.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from bench.experiments.ceiling.workload import QUEUE, preload
from bench.harness.errors import BenchError
from bench.harness.measure import (
    Spread,
    command_difference,
    spread,
    total_microseconds,
)
from bench.harness.servers import RedisServer
from tq_celery.policies.registry import make_policy
from tq_celery.scheduler.arrivals import rank_arrivals
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.scripts import SCRIPTS, Script

__all__ = ["Fence", "fence", "without_fence"]

#: The two lines of each leader script that refuse a superseded epoch.
CHECK = "local refusal = fenced(epoch)\nif refusal then return refusal end\n"
#: The file whose lines define ``fenced``.
INCLUDE = "includes/fence.lua:"
BATCH = 256
#: Lease of the experiment's leadership in ms: longer than any run.
LEASE = 3_600_000
#: Pairs of blocks, one of each kind, at most; every pair gives one ratio.
PAIRS = 40
#: Batches in a block: enough for the statistics' resolution, few enough for drift not to matter.
BLOCK = 8 * BATCH


@dataclass(frozen=True, slots=True)
class Fence:
    """Live over inert minus one, for server microseconds and for wall time of the calls."""

    admit: Spread
    dispatch: Spread
    admit_wall: Spread
    dispatch_wall: Spread


def without_fence(script: Script) -> Script:
    """Return ``script`` with the check and its helper left out.

    Raises BenchError unless the script has exactly one check: a silent zero measures nothing.
    """
    kept = [
        line
        for line, origin in zip(script.text.splitlines(), script.lines, strict=True)
        if not origin.startswith(INCLUDE)
    ]
    text = "\n".join(kept) + "\n"
    if text.count(CHECK) != 1 or len(kept) == len(script.lines):
        raise BenchError(f"script {script.name} has no fence of the expected form")
    text = text.replace(CHECK, "")
    return replace(script, text=text, sha=hashlib.sha1(text.encode()).hexdigest())


def fence(server: RedisServer, policy: str, tenants: int, tasks: int, seed: int) -> Fence:
    """Admit and dispatch ``tasks`` in blocks that alternate between live and inert scripts."""
    scripts = {
        name: (SCRIPTS[name], without_fence(SCRIPTS[name])) for name in ("admit", "dispatch")
    }
    store = preload(server, policy, tasks, tenants, seed)
    with contextlib.closing(store):
        for pair in scripts.values():
            for script in pair:
                server.client.script_load(script.text)
        epoch = store.elect("bench", LEASE).epoch
        admit = _blocks(server, scripts["admit"], _admissions(store, epoch, policy), tasks)
        for _ in iter(partial(next, _admissions(store, epoch, policy)), 0):
            pass  # the rest, so that dispatch finds the whole backlog
        dispatch = _blocks(server, scripts["dispatch"], _dispatches(store, epoch, tasks), tasks)
    return Fence(admit[0], dispatch[0], admit[1], dispatch[1])


def _admissions(store: RedisStore, epoch: int, policy_name: str) -> Iterator[int]:
    """Admit a batch per step, as the scheduler's loops do, and yield the size of each."""
    policy, generation = make_policy(policy_name), int(store.config()["generation"])
    cursor = b""
    while True:
        read = store.read_ingress(cursor, BATCH, 0)
        cursor = read.cursor
        ranked, _ = rank_arrivals(policy, read.arrivals)
        yield store.admit(epoch, generation, ranked) if ranked else 0


def _dispatches(store: RedisStore, epoch: int, tasks: int) -> Iterator[int]:
    while True:
        yield store.dispatch(epoch, [QUEUE], 2 * tasks, BATCH).count


def _blocks(
    server: RedisServer, pair: tuple[Script, Script], steps: Iterator[int], tasks: int
) -> tuple[Spread, Spread]:
    scripted: list[float] = []
    walled: list[float] = []
    # a block takes up to a batch more than its size
    pairs = min(PAIRS, tasks // (2 * (BLOCK + BATCH)))
    for number in range(pairs):
        # live inert, inert live, live inert, ...: a steady drift cancels over two pairs
        order = (0, 1) if number % 2 == 0 else (1, 0)
        figures: dict[int, tuple[float, float]] = {}
        for kind in order:
            with _installed(pair[kind]):
                figures[kind] = _block(server, steps)
        scripted.append(figures[0][0] / figures[1][0] - 1)
        walled.append(figures[0][1] / figures[1][1] - 1)
    return spread(scripted), spread(walled)


def _block(server: RedisServer, steps: Iterator[int]) -> tuple[float, float]:
    """Return script microseconds and wall microseconds per task of one block."""
    before, start, moved = server.command_calls(), time.perf_counter(), 0
    while moved < BLOCK:
        step = next(steps)
        if step == 0:
            raise BenchError("work ran out before the blocks did: use more tasks")
        moved += step
    wall = time.perf_counter() - start
    used = command_difference(before, server.command_calls())
    return total_microseconds(used, direct=()) / moved, wall / moved * 1e6


@contextlib.contextmanager
def _installed(script: Script) -> Iterator[None]:
    original = SCRIPTS[script.name]
    SCRIPTS[script.name] = script
    try:
        yield
    finally:
        SCRIPTS[script.name] = original
