"""How long a leader's scrape takes while very many tasks of many tenants wait."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from bench.experiments.ceiling.workload import NAMESPACE, QUEUE, preload
from bench.experiments.scrape.target import scheduler, scrape
from bench.harness.arms import TQArm
from bench.harness.errors import BenchError
from bench.harness.measure import percentile
from bench.harness.process import until
from bench.harness.servers import RedisServer
from tq_celery.embedded import free_port
from tq_celery.states import Outcome
from tq_celery.store.contract import MAX_BATCH, Return, Settlement, WorkerAnnouncement
from tq_celery.store.redis_store import RedisStore

__all__ = ["Scrapes", "scrapes"]

#: Tasks that end before anything is measured, of each tenant: so that each has a record.
SERVED = 3
#: Lease of the worker that settles these, ms.
LEASE = 600_000


@dataclass(frozen=True, slots=True)
class Scrapes:
    """Milliseconds of the scrapes, and what the last of them answered."""

    p50: float
    p99: float
    longest: float
    series: int
    bytes: int
    pending: int
    tenants: int


def scrapes(
    server: RedisServer, pending: int, tenants: int, times: int, policy: str, seed: int
) -> Scrapes:
    """Measure ``times`` scrapes; raises BenchError when one does not have what it must have."""
    extra = SERVED * tenants
    store = preload(server, policy, pending + extra, tenants, seed)
    arm, port = TQArm(server, policy=policy, namespace=NAMESPACE), free_port()
    with contextlib.closing(store), scheduler(arm, port) as process:

        def waits() -> bool:
            process.check()
            return store_count(store, "pending") >= pending + extra

        until(waits, "all tasks to be admitted", 120)
        _serve(store, extra)
        label = f'tq_pending_tasks{{queue="{QUEUE}"}} {float(pending)}'
        until(lambda: label in scrape(port).body, "a scrape that shows them", 30, pause=0.2)
        found = [scrape(port) for _ in range(times)]
        process.check()
    last = [line for line in found[-1].body.splitlines() if not line.startswith("#")]
    if label not in last or f"tq_tenants {float(tenants)}" not in last:
        raise BenchError("the last scrape does not show all tasks, or not all tenants")
    times_ms = [each.seconds * 1000 for each in found]
    return Scrapes(
        percentile(times_ms, 50), percentile(times_ms, 99), max(times_ms),
        len(last), len(found[-1].body), pending, tenants,
    )  # fmt: skip


def store_count(store: RedisStore, word: str) -> int:
    """Return a counter of the queue."""
    return int(store.client.hget(store.keys.name("counters"), f"{word}:{QUEUE}") or 0)


def _serve(store: RedisStore, count: int) -> None:
    """Settle ``count`` tasks as a worker does, give back what else it was sent, and go."""
    left = count
    store.renew(WorkerAnnouncement("bench", (QUEUE,), MAX_BATCH, 0), LEASE)
    while left > 0:
        held = store.read("bench", {QUEUE: min(left, MAX_BATCH)}, 1_000)
        store.complete(
            "bench",
            [Settlement(each.token, Outcome.COMPLETED, each.digest, 1.0, 2.0) for each in held],
        )
        left -= len(held)
    store.renew(WorkerAnnouncement("bench", (QUEUE,), 0, 0), LEASE)

    def empty() -> bool:
        held = store.read("bench", {QUEUE: MAX_BATCH}, 0)
        store.give_back([Return(each.token) for each in held], budget=1)
        return store_count(store, "dispatched") == 0

    until(empty, "what is in flight to come back", 30)
    store.withdraw("bench")
