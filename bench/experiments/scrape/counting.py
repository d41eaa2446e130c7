"""What the counters of a settlement cost the server: ``complete`` as it is, and without them.

The script without exists only here: it is made from the library's text by leaving out the line that
notes the end of a task, so nothing in the library can switch the counters off.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import replace

from bench.experiments.ceiling.workload import QUEUE, preload
from bench.harness.errors import BenchError
from bench.harness.measure import Spread, command_difference, spread, total_microseconds
from bench.harness.servers import RedisServer
from tq_celery.policies.registry import make_policy
from tq_celery.scheduler.arrivals import rank_arrivals
from tq_celery.states import Outcome
from tq_celery.store.contract import Delivery, Settlement, WorkerAnnouncement
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.scripts import SCRIPTS, Script

__all__ = ["counting", "without_counters"]

#: The line that notes how a task ended.
NOTE = "  note_end(queue, run.tenant, how, deadline, entry and dispatched - arrived)\n"
BATCH = 64
#: Batches of a block.
BLOCK = 8
LEASE = 3_600_000


def without_counters(script: Script) -> Script:
    """Return ``script`` without the line; raises BenchError unless it has exactly one."""
    if script.text.count(NOTE) != 1:
        raise BenchError(f"script {script.name} does not note ends in the expected form")
    text = script.text.replace(NOTE, "")
    return replace(script, text=text, sha=hashlib.sha1(text.encode()).hexdigest())


def counting(server: RedisServer, tasks: int, tenants: int, seed: int) -> tuple[Spread, Spread]:
    """Settle ``tasks``; return microseconds per task as it is, and what the counters are of it."""
    live = SCRIPTS["complete"]
    kinds = (live, without_counters(live))
    store = preload(server, "wfq", tasks, tenants, seed)
    figures: list[tuple[float, float]] = []
    try:
        with contextlib.closing(store):
            for script in kinds:
                server.client.script_load(script.text)
            epoch = store.elect("bench", LEASE).epoch
            _admit_all(store, epoch)
            store.renew(WorkerAnnouncement("bench", (QUEUE,), BATCH, 0), LEASE)
            for number in range(tasks // (2 * BLOCK * BATCH)):
                found: dict[int, float] = {}
                # live bare, bare live, live bare, ...: a steady drift cancels over two pairs
                for kind in (0, 1) if number % 2 == 0 else (1, 0):
                    SCRIPTS["complete"] = kinds[kind]
                    found[kind] = sum(_settle(server, store, epoch) for _ in range(BLOCK)) / BLOCK
                figures.append((found[0], found[1]))
    finally:
        SCRIPTS["complete"] = live
    return spread([both for both, _ in figures]), spread([a - b for a, b in figures])


def _admit_all(store: RedisStore, epoch: int) -> None:
    policy, generation = make_policy("wfq"), int(store.config()["generation"])
    cursor = b""
    while arrivals := (read := store.read_ingress(cursor, 256, 0)).arrivals:
        cursor = read.cursor
        store.admit(epoch, generation, rank_arrivals(policy, arrivals)[0])


def _settle(server: RedisServer, store: RedisStore, epoch: int) -> float:
    """Take a batch to a worker and settle it; return the script's microseconds per task."""
    store.dispatch(epoch, [QUEUE], BATCH, BATCH)
    held: list[Delivery] = store.read("bench", {QUEUE: BATCH}, 0)
    ends = [Settlement(each.token, Outcome.COMPLETED, each.digest, 1.0, 2.5) for each in held]
    before = server.command_calls()
    settled = store.complete("bench", ends)
    used = command_difference(before, server.command_calls())
    if len(held) != BATCH or not all(settled):
        raise BenchError("work ran out before the blocks did: use more tasks")
    return total_microseconds(used, direct=()) / BATCH
