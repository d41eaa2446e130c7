"""Measures how long the Scheduler page takes at many tenants: what a browser waits for, in ms.

::

    python -m tests.celery.flower_times --tenants 1000 --letters 100000

A real Flower and a Valkey on this machine. Each answer is of a reading of its own: the pauses
between them are longer than a reading is kept.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.celery.flower_lab import FlowerLab, flower_lab
from tests.servers import ValkeyServer
from tests.unit.cli.conftest import Space
from tq_celery.flower.desk import FRESH
from tq_celery.measures import percentile
from tq_celery.settings import Settings
from tq_celery.store.redis_store import RedisStore

NAMESPACE = "times"
#: Settled tasks per tenant, bytes of a dead letter's message, and rows per round trip.
SETTLED, MESSAGE, BATCH = 10, 500, 5_000
#: What is asked for: the page, what fills it, and the same with every tenant.
PATHS = ("/scheduler", "/scheduler/data", "/scheduler/data?limit=1000", "/broker")


def fill(space: Space, tenants: int, letters: int) -> None:
    """Put tasks of every tenant into every state that the page reads."""
    for number in range(tenants):
        for queue in (f"q{number % 3}", "all"):
            space.submit(2, queue=queue, tenant=b"t%d" % number)
        space.store.set_weight(b"t%d" % number, 1 + number % 5)
    space.admit_all()
    now = int(space.client.time()[0]) * 1_000
    of = {"admitted": now - 500, "started": now - 100, "finished": now}
    add(space, "results", SETTLED * tenants, lambda n: {"tenant": b"t%d" % (n % tenants), **of})
    payload = json.dumps({"headers": {"task": "proj.add"}, "body": "x" * MESSAGE})
    letter = {"key": "1.task.0.a", "queue": "q1", "tenant": "t1", "reason": "worker lost"}
    add(space, "dead", letters, lambda n: {**letter, "payload": payload, "at": now + n})


def add(space: Space, stream: str, count: int, entry: Any) -> None:
    for start in range(0, count, BATCH):
        pipe = space.client.pipeline(transaction=False)
        for number in range(start, min(count, start + BATCH)):
            pipe.xadd(space.key(stream), entry(number))
        pipe.execute()


def measure(flower: FlowerLab, path: str, times: int) -> list[float]:
    """Return how long each answer took, in ms, ascending."""
    taken = []
    for _ in range(times):
        time.sleep(FRESH * 1.1)
        started = time.perf_counter()
        answer = flower.ask(path)
        taken.append((time.perf_counter() - started) * 1_000)
        assert answer.status == 200, answer.text
    return sorted(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=1_000)
    parser.add_argument("--letters", type=int, default=0)
    parser.add_argument("--times", type=int, default=20)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ValkeyServer() as server:
        settings = Settings(url=server.url, namespace=NAMESPACE)
        store = RedisStore.open(settings)
        fill(Space(server, settings, store), given.tenants, given.letters)
        store.close()
        with flower_lab(Path(folder), server, NAMESPACE) as flower:
            print(f"{given.tenants:,} tenants, {given.letters:,} dead letters, {given.times} times")
            for path in PATHS:
                taken = measure(flower, path, given.times)
                p50, p95 = (percentile(taken, q) for q in (50, 95))
                print(f"{path:<30} p50 {p50:6.1f} ms  p95 {p95:6.1f} ms  max {taken[-1]:6.1f} ms")


if __name__ == "__main__":
    main()
