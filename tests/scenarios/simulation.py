"""A worker pool in virtual time around the in-process store: no servers, no sleeping.

One slot serves one task at a time for as long as its cost says, so "service" is both the sum of
costs and worker time. Tests say who sends what, run the pool for a while, and read what each
tenant got.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import Any

from tests.store.contract.steps import NO_LIMITS, admit_all, complete, promote_all, task
from tq_celery.settings import Settings
from tq_celery.store.contract import Return, Token
from tq_celery.store.memory_store import MemoryStore

__all__ = ["Simulation"]


class Simulation:
    """A namespace, some slots, and a record of everything that started."""

    def __init__(self, slots: int = 1, queues: tuple[str, ...] = ("q",), **seed: Any) -> None:
        self.store = MemoryStore("simulation")
        self.store.seed(Settings(**seed))
        self.slots, self.queues = slots, queues
        self.epoch = 1
        self.time = 0.0
        self.number = 0
        #: tenant -> cost of what has started
        self.service: defaultdict[str, float] = defaultdict(float)
        self.starts: list[tuple[float, str, str]] = []
        self.waits: dict[str, list[float]] = defaultdict(list)
        self._sent: dict[str, float] = {}
        self._running: list[tuple[float, int, Token]] = []
        self._origin = self.store.now
        if len(queues) > 1:
            self.store.regroup(self.epoch, dict.fromkeys(queues, min(queues)))

    def send(
        self, tenant: str, count: int = 1, cost: float = 1.0, queue: str = "", **options: Any
    ) -> None:
        """Submit tasks and admit them."""
        for _ in range(count):
            self.number += 1
            name = f"n{self.number}"
            self._sent[name] = self.time
            self.store.submit(
                task(name, tenant, queue or self.queues[0], cost=cost, **options), NO_LIMITS
            )
        admit_all(self.store, self.epoch)

    def start(self, count: int = 1) -> list[str]:
        """Dispatch up to ``count`` tasks; returns their tenants in order."""
        return [tenant for _ in range(count) for tenant in self._dispatch()]

    def _dispatch(self) -> list[str]:
        capacity = sum(self.store.ns.counters["dispatched", q] for q in self.queues) + 1
        self.store.dispatch(self.epoch, self.queues, capacity, 1)
        rooms = dict.fromkeys(self.queues, 1)
        found = []
        for delivery in self.store.read("w", rooms, 0):
            run = self.store.ns.running[delivery.token.queue][delivery.token.entry]
            tenant, name = run.tenant.decode(), delivery.key.rpartition(b".")[2].decode()
            cost = _cost(run.record)
            self.service[tenant] += cost
            self.starts.append((self.time, tenant, name))
            self.waits[tenant].append(self.time - self._sent[name])
            heapq.heappush(self._running, (self.time + cost, len(self.starts), delivery.token))
            found.append(tenant)
        return found

    def finish_next(self) -> None:
        """Let time pass until the next running task ends, and settle it."""
        ends, _, token = heapq.heappop(self._running)
        self.time = max(self.time, ends)
        self.store.now = self._origin + int(self.time * 1000)
        assert self.store.complete("w", [complete(token)]) == [True]

    def give_back_latest(self) -> str:
        """Hand the task that started last back unstarted; returns its tenant."""
        latest = max(self._running, key=lambda each: each[1])
        self._running.remove(latest)
        heapq.heapify(self._running)
        _, tenant, _name = self.starts.pop()
        token = latest[2]
        cost = _cost(self.store.ns.running[token.queue][token.entry].record)
        self.service[tenant] -= cost
        self.waits[tenant].pop()
        assert self.store.give_back([Return(token)], budget=5) == [True]
        return tenant

    def run(self, starts: int) -> None:
        """Keep the slots busy until so many more tasks have started, or nothing is left."""
        for _ in range(starts):
            while len(self._running) >= self.slots:
                self.finish_next()
            while not self._dispatch():
                if not self._running:
                    return
                self.finish_next()
        promote_all(self.store, self.epoch)

    def advance(self, until: float) -> None:
        """Keep the slots busy until the clock shows ``until``."""
        while True:
            while len(self._running) < self.slots and self._dispatch():
                pass
            if not self._running or self._running[0][0] > until:
                break
            self.finish_next()
        self.time = max(self.time, until)
        self.store.now = self._origin + int(self.time * 1000)

    def take_over(self) -> None:
        """Let another leader, which knows nothing, go on with the next epoch."""
        self.store.ns.leader = None
        self.epoch = self.store.elect(f"leader-{self.epoch + 1}", 2_000).epoch

    def waiting(self, tenant: str) -> int:
        """Return how many of a tenant's tasks wait."""
        return sum(
            len(tasks)
            for (_, other), tasks in self.store.ns.pending.items()
            if other == tenant.encode()
        )

    @property
    def tags(self) -> int:
        """Return how many numbers fair sharing keeps."""
        return sum(len(starts) for starts in self.store.ns.starts.values())

    @property
    def virtual(self) -> float:
        """Return V."""
        return max(self.store.ns.virtual.values(), default=0.0)


def _cost(record: bytes) -> float:
    from tq_celery.store.record import unpack_record

    return unpack_record(record).cost
