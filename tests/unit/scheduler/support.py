"""What the scheduler's unit tests share: a scheduler on a store in memory, and tasks for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tq_celery.scheduler import Scheduler
from tq_celery.settings import Settings
from tq_celery.states import Outcome
from tq_celery.store.contract import Limits, Settlement, Submission, WorkerAnnouncement
from tq_celery.store.memory_store import MemoryStore
from tq_celery.store.record import TaskKey


class Store(MemoryStore):
    """A store in memory that counts calls and fails on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: dict[str, Exception] = {}
        self.dispatch_calls: list[tuple[tuple[str, ...], int, int]] = []

    def close(self) -> None:
        """Nothing is open."""

    def _fail(self, operation: str) -> None:
        if operation in self.failures:
            raise self.failures[operation]

    def dispatch(self, epoch, queues, capacity, batch):
        self._fail("dispatch")
        self.dispatch_calls.append((tuple(queues), capacity, batch))
        return super().dispatch(epoch, queues, capacity, batch)

    def admit(self, epoch, generation, items):
        self._fail("admit")
        return super().admit(epoch, generation, items)

    def elect(self, owner, ttl, floor=0):
        self._fail("elect")
        return super().elect(owner, ttl, floor)

    def workers(self):
        self._fail("workers")
        return super().workers()


@dataclass
class Bench:
    """One namespace in memory and a scheduler on it; time moves by :meth:`pass_time`."""

    options: dict[str, Any] = field(default_factory=dict)
    store: Store = field(default_factory=Store)
    numbers: int = 0

    def __post_init__(self) -> None:
        self.settings = Settings(**{"namespace": "memory", "policy": "fifo", **self.options})
        self.scheduler = self.another()

    def another(self) -> Scheduler:
        """A second process on the same namespace."""
        return Scheduler(self.settings, lambda settings, timeout: self.store)

    def submit(self, queue: str = "q", tenant: bytes = b"acme", count: int = 1, **options) -> None:
        for _ in range(count):
            self.numbers += 1
            key = TaskKey(f"task-{self.numbers}")
            self.store.submit(
                Submission(key, queue, tenant, b"payload", b"d" * 16, **options), Limits()
            )

    def worker(self, name: str, *queues: str, slots: int, lease: int = 30_000) -> None:
        self.store.renew(WorkerAnnouncement(name, queues, slots, 0), lease)

    def run(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            self.scheduler.run_once()

    def pass_time(self, ms: int) -> None:
        self.store.now += ms

    def exec_keys(self, queue: str = "q") -> list[str]:
        """Ids of the tasks on the exec stream, in order."""
        return [TaskKey.decode(entry.key).id for entry in self.store.ns.exec[queue].values()]

    def settle(self, worker: str, queue: str = "q", count: int = 100) -> int:
        """Read and complete deliveries; return how many."""
        deliveries = self.store.read(worker, {queue: count}, 0)
        self.store.complete(
            worker,
            [Settlement(each.token, Outcome.COMPLETED, each.digest) for each in deliveries],
        )
        return len(deliveries)
