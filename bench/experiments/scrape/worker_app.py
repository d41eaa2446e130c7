"""The arm under test with a worker that counts and measures in some blocks of time and not in all.

Two processes differ by more than metrics cost: on one machine a worker is ten per cent faster than
the next one that does the same. So one process takes turns. In a block of the kind ``off`` the
worker keeps no timings and settles with a script that keeps no counters, in ``counters`` it settles
as the library does, and in ``on`` it keeps timings too and both processes are scraped.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from threading import Thread
from typing import Any

import redis
from celery.signals import worker_ready
from celery.worker import state

from bench.experiments.scrape.counting import without_counters
from bench.experiments.scrape.target import scrape
from bench.harness.tq_app import TASKS, app
from tq_celery.store.script_times import SCRIPT_TIMES
from tq_celery.store.scripts import SCRIPTS
from tq_celery.worker.bootstep import TQStep

__all__ = ["KINDS", "TASKS", "TURNS", "VARIABLE", "Block", "Plan", "app"]

#: Environment variable with the plan, as JSON.
VARIABLE = "BENCH_SCRAPE_PLAN"
KINDS = ("off", "counters", "on")
#: One round: there and back, so that a steady drift cancels.
TURNS = (*KINDS, *reversed(KINDS))


@dataclass(frozen=True, slots=True)
class Plan:
    """Seconds of a block; seconds of ``on`` between two scrapes of ``ports``; where blocks go."""

    block: float
    every: float
    ports: tuple[int, ...]
    file: str


@dataclass(frozen=True, slots=True)
class Block:
    """Seconds of one block, the tasks that started in it, and CPU seconds by process.

    ``done`` are the tasks that had started by its end.
    """

    kind: str
    seconds: float
    tasks: int
    worker: float
    server: float
    done: int


@worker_ready.connect
def _begin(sender: Any, **_: Any) -> None:
    plan = os.environ.get(VARIABLE)
    if plan:
        step = next(each for each in sender.blueprint.order if isinstance(each, TQStep))
        Thread(target=_take_turns, args=(Plan(**json.loads(plan)), step), daemon=True).start()


def _take_turns(plan: Plan, step: TQStep) -> None:
    assert step.reader is not None
    table, client = step.reader.table, redis.Redis.from_url(app.tq.settings.url, protocol=2)
    timings, counting = table.timings, SCRIPTS["complete"]
    bare = without_counters(counting)
    client.script_load(bare.text)

    def read() -> tuple[float, int, float, float]:
        used = client.info("cpu")
        server = float(used["used_cpu_user"]) + float(used["used_cpu_sys"])
        return time.monotonic(), state.all_total_count[0], time.process_time(), server

    since = plan.every / 2  # a scrape belongs to each stretch, not to its beginning
    with Path(plan.file).open("a") as out:
        before = read()
        for kind in cycle(TURNS):
            table.timings = timings if kind == "on" else None
            SCRIPT_TIMES.on = kind == "on"
            SCRIPTS["complete"] = bare if kind == "off" else counting
            if kind == "on" and since >= plan.every:
                since = 0.0
                for port in plan.ports:
                    scrape(port)
            time.sleep(max(0.0, before[0] + plan.block - time.monotonic()))
            after = read()
            seconds, tasks, worker, server = (b - a for a, b in zip(before, after, strict=True))
            since += seconds if kind == "on" else 0.0
            block = Block(kind, seconds, int(tasks), worker, server, after[1])
            print(json.dumps(asdict(block)), file=out, flush=True)
            before = after
