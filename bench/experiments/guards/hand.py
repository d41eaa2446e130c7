"""A worker's hand: takes deliveries, holds them, and settles them when it is told.

``python -m bench.experiments.guards.hand COUNT HOW``; settings are in the environment. It says
``holds COUNT``, waits for a line on its standard input while it renews its lease, settles all it
holds, and says how many of its settlements were taken. ``HOW``:

============  ==============================================================================
``settle``    as a worker does: one call
``any``       the same, with a token that is not looked at
``dies``      one call, and it is killed before it learns of the answer
``record``    the outcomes are recorded, and it is killed before it acknowledges
``ack``       the deliveries are acknowledged, and it is killed before it records the outcomes
============  ==============================================================================
"""

from __future__ import annotations

import os
import select
import signal
import sys
from typing import Any

from bench.experiments.guards.patches import ACK, install
from tq_celery.settings import Settings
from tq_celery.states import Outcome
from tq_celery.store.contract import Delivery, Settlement, WorkerAnnouncement
from tq_celery.store.redis_store import RedisStore

__all__ = ["QUEUE", "TENANT", "settle"]

QUEUE, TENANT = "q", b"tenant"


def settle(store: RedisStore, worker: str, deliveries: list[Delivery]) -> int:
    """Settle as completed; return how many were taken."""
    clock: Any = store.client.time()
    now = clock[0] * 1000 + clock[1] / 1000
    items = [
        Settlement(each.token, Outcome.COMPLETED, each.digest, now, now) for each in deliveries
    ]
    return sum(store.complete(worker, items))


def main(count: int, how: str) -> None:
    """See the module."""
    if how in ("any", "record"):
        install({"any": "any token", "record": "ack apart"}[how])
    settings = Settings.load()
    store, name = RedisStore.open(settings), f"hand-{os.getpid()}"
    offer, lease = WorkerAnnouncement(name, (QUEUE,), count, 0), round(settings.lease * 1000)
    store.renew(offer, lease)
    held: list[Delivery] = []
    while len(held) < count:
        held += store.read(name, {QUEUE: count - len(held)}, 100)
        store.renew(offer, lease)
    print(f"holds {len(held)}", flush=True)
    while not select.select([sys.stdin], [], [], settings.lease / 3)[0]:
        store.renew(offer, lease)
    if how == "ack":
        client: Any = store.client
        entries = [each.token.entry for each in held]
        client.eval(ACK, 1, store.keys.prefix, QUEUE, TENANT, *entries)
    else:
        taken = settle(store, name, held)
    if how in ("dies", "record", "ack"):
        os.kill(os.getpid(), signal.SIGKILL)
    print(f"settled {taken}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
