"""Three ways to take the next task from a server: in two commands, in one script, and ours."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, Protocol

import redis

from bench.experiments.ceiling.workload import NAMESPACE, QUEUE, preload
from bench.harness.servers import RedisServer
from tq_celery.policies.registry import make_policy
from tq_celery.scheduler.arrivals import rank_arrivals
from tq_celery.settings import Settings
from tq_celery.store.redis_store import RedisStore

__all__ = ["POPS", "Pop"]

#: The sorted set of the first two ways.
PENDING = "race:pending"
#: What a careful author writes instead of two commands.
TAKE = """
local first = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
if first then redis.call('ZREM', KEYS[1], first) end
return first
"""
_BATCH = 500


class Pop(Protocol):
    """One worker's connection and its way to pop."""

    def __call__(self, gap: float) -> bytes | None:
        """Take a task, with ``gap`` seconds where this way lets time pass; None: there is none."""


class Naive:
    """Look at the first task, then remove it: what is between the two belongs to nobody."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __call__(self, gap: float) -> bytes | None:
        found = self._client.zrange(PENDING, 0, 0)
        time.sleep(gap)
        if not found:
            return None
        self._client.zrem(PENDING, found[0])
        return bytes(found[0])


class Scripted:
    """Look and remove in one script; the gap can only be before it."""

    def __init__(self, client: Any) -> None:
        self._take = client.register_script(TAKE)

    def __call__(self, gap: float) -> bytes | None:
        time.sleep(gap)
        found = self._take(keys=[PENDING])
        return None if found is None else bytes(found)


class Library:
    """The library's own steps: dispatch the best task, then read what was dispatched.

    In a deployment only the leader dispatches. Here every worker does, under the one epoch, so
    that the scripts meet each other as often as those of the other ways.
    """

    def __init__(self, store: RedisStore, worker: str, epoch: int, capacity: int) -> None:
        self._store, self._worker = store, worker
        self._epoch, self._capacity = epoch, capacity

    def __call__(self, gap: float) -> bytes | None:
        self._store.dispatch(self._epoch, [QUEUE], self._capacity, 1)
        time.sleep(gap)
        found = self._store.read(self._worker, {QUEUE: 1}, 0)
        return found[0].key if found else None


@contextlib.contextmanager
def _plain(server: RedisServer, kind: type[Naive | Scripted], workers: int, tasks: int) -> Any:
    server.client.flushall()
    server.client.zadd(PENDING, {f"task-{number}": number for number in range(tasks)})
    with contextlib.ExitStack() as stack:
        clients = [redis.Redis(port=server.port) for _ in range(workers)]
        for client in clients:
            stack.callback(client.close)
        yield [kind(client) for client in clients]


@contextlib.contextmanager
def naive(server: RedisServer, workers: int, tasks: int) -> Iterator[list[Pop]]:
    """Fill a sorted set; yields a naive pop for every worker."""
    with _plain(server, Naive, workers, tasks) as made:
        yield made


@contextlib.contextmanager
def scripted(server: RedisServer, workers: int, tasks: int) -> Iterator[list[Pop]]:
    """Fill a sorted set; yields a scripted pop for every worker."""
    with _plain(server, Scripted, workers, tasks) as made:
        yield made


@contextlib.contextmanager
def library(server: RedisServer, workers: int, tasks: int) -> Iterator[list[Pop]]:
    """Fill a namespace and admit everything; yields the library's pop for every worker."""
    with contextlib.ExitStack() as stack:
        leader = stack.enter_context(contextlib.closing(preload(server, "fifo", tasks, 1, seed=1)))
        epoch = leader.elect("race", 3_600_000).epoch
        generation, cursor = int(leader.config()["generation"]), b""
        while arrivals := (read := leader.read_ingress(cursor, _BATCH, 0)).arrivals:
            ranked, _ = rank_arrivals(make_policy("fifo"), arrivals)
            leader.admit(epoch, generation, ranked)
            cursor = read.cursor
        settings = Settings.load(environ={}, url=server.url(), namespace=NAMESPACE, policy="fifo")
        stores = [RedisStore.open(settings) for _ in range(workers)]
        for store in stores:
            stack.callback(store.close)
        yield [
            Library(store, f"worker-{number}", epoch, 2 * tasks)
            for number, store in enumerate(stores)
        ]


#: The ways by their names in the table.
POPS = {"naive": naive, "scripted": scripted, "tq": library}
