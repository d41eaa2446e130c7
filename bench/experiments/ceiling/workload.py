"""The tasks that are scheduled: seeded, preloaded through the library's own bulk submit."""

from __future__ import annotations

import random
from collections.abc import Iterator

from bench.harness.errors import BenchError
from bench.harness.servers import RedisServer
from tq_celery.settings import Settings
from tq_celery.store.contract import Limits, Receipt, Submission
from tq_celery.store.record import TaskKey
from tq_celery.store.redis_store import RedisStore

__all__ = ["NAMESPACE", "PAYLOAD", "QUEUE", "preload", "submissions"]

NAMESPACE = "bench"
QUEUE = "celery"
#: Bytes of one message: about what Celery sends for a task with a few arguments.
PAYLOAD = 600
#: Submissions per call; each call is one pipeline.
_CHUNK = 500


def submissions(tasks: int, tenants: int, seed: int) -> Iterator[Submission]:
    """Yield tasks of tenants in random order with costs of 0.5 to 1.5.

    Random order is the hard case: a batch holds tasks of as many tenants as it can.
    """
    rng = random.Random(seed)
    payload = b"x" * PAYLOAD
    names = [b"tenant-%d" % number for number in range(tenants)]
    for number in range(tasks):
        yield Submission(
            TaskKey(f"00000000-0000-4000-8000-{number:012d}"),
            QUEUE,
            names[rng.randrange(tenants)],
            payload,
            digest=number.to_bytes(16, "big"),
            cost=rng.uniform(0.5, 1.5),
        )


def preload(server: RedisServer, policy: str, tasks: int, tenants: int, seed: int) -> RedisStore:
    """Empty the server, submit ``tasks`` and return a store of that namespace.

    Raises BenchError when a single one was not accepted.
    """
    server.client.flushall()
    settings = Settings.load(environ={}, url=server.url(), namespace=NAMESPACE, policy=policy)
    store = RedisStore.open(settings)
    store.seed(settings)
    chunk: list[Submission] = []
    for number, submission in enumerate(submissions(tasks, tenants, seed), 1):
        chunk.append(submission)
        if len(chunk) == _CHUNK or number == tasks:
            for receipt in store.submit_many(chunk, Limits()):
                if not isinstance(receipt, Receipt) or receipt.status != "accepted":
                    raise BenchError(f"a task was not accepted: {receipt}")
            chunk.clear()
    return store
