"""One namespace for one run: schedulers with faults, hands, and the books."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from bench.experiments.guards.account import Shown
from bench.experiments.guards.hand import QUEUE, TENANT, settle
from bench.experiments.guards.scheduler import Faults, program
from bench.harness.errors import BenchError
from bench.harness.failures.records import stale
from bench.harness.failures.scene import Scene
from bench.harness.process import Process, until
from bench.harness.servers import RedisServer
from tq_celery.settings import Settings
from tq_celery.store.contract import Limits, Submission, WorkerAnnouncement
from tq_celery.store.record import TaskKey
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.verify import verify

__all__ = ["LEASE", "PATIENCE", "TTL", "Stage"]

#: Leases of leader and worker, seconds.
TTL, LEASE = 1.0, 1.5
#: Seconds to wait for what has to come.
PATIENCE = 60.0
#: The worker of this process, which settles what is left; it is alive for an hour.
WORKER, HOUR = "settler", 3_600_000


class Stage:
    """See the module; a context manager."""

    def __init__(self, server: RedisServer, namespace: str) -> None:
        self.server, self.client = server, server.client
        self._stack = contextlib.ExitStack()
        self.scene = self._stack.enter_context(
            Scene(server.url(), client=server.client, ttl=TTL, lease=LEASE, namespace=namespace)
        )
        self.store = RedisStore.open(
            Settings(
                url=server.url(), namespace=namespace, policy="fifo", lease=LEASE,
                leader_ttl=TTL, results_maxlen=None,
            )
        )  # fmt: skip
        self._stack.callback(self.store.close)
        self.submitted = 0
        self._refused = self.refused()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # -- processes -----------------------------------------------------------------------------

    def scheduler(
        self, faults: Faults, *, wait: bool = True, env: Mapping[str, str] | None = None
    ) -> Process:
        """Start a scheduler with faults."""
        return self.scene.scheduler(program=program(faults), env=env, wait=wait)

    def leads(self, process: Process) -> None:
        """Wait until this scheduler leads; raises BenchError."""
        until(lambda: self.scene.leader() is process, f"{process.name} to lead", PATIENCE)

    def hand(self, count: int, how: str) -> Process:
        """Start a hand, and wait until it holds ``count`` deliveries; raises BenchError."""
        command = [sys.executable, "-m", "bench.experiments.guards.hand", str(count), how]
        process = Process("hand", command, self.scene.env, listens=True)
        self._stack.callback(process.stop)

        def holds() -> bool:
            process.check()
            return f"holds {count}" in process.output()

        until(holds, f"the hand to hold {count} deliveries", PATIENCE)
        return process

    # -- work ----------------------------------------------------------------------------------

    def offer(self, *queues: str) -> None:
        """Announce a worker with room for everything."""
        self.store.renew(WorkerAnnouncement(WORKER, queues, 1_000_000, 0), HOUR)

    def submit(self, count: int, queue: str = QUEUE) -> None:
        """Submit ``count`` tasks."""
        tasks = [
            Submission(TaskKey(f"task-{self.submitted + n}"), queue, TENANT, b"payload", b"d" * 16)
            for n in range(count)
        ]
        receipts = self.store.submit_many(tasks, Limits())
        if not all(getattr(each, "status", "") == "accepted" for each in receipts):
            raise BenchError(f"a submission was not accepted: {receipts[0]}")
        self.submitted += count

    def counter(self, word: str, queue: str = QUEUE) -> int:
        """Return one conservation counter."""
        return int(self.client.hget(self.scene.keys.name("counters"), f"{word}:{queue}") or 0)

    def waiting(self, queue: str = QUEUE) -> int:
        """Return how many tasks of the queue are on their way: in ingress, pending or exec."""
        name, pipeline = self.scene.keys.name, self.client.pipeline(transaction=True)
        pipeline.xlen(name("ingress"))
        pipeline.hget(name("counters"), f"pending:{queue}")
        pipeline.xlen(self.scene.keys.of_queue("exec", queue))
        ingress, pending, dispatched = pipeline.execute()
        return int(ingress) + int(pending or 0) + int(dispatched)

    def settle_all(self, *queues: str) -> None:
        """Take and settle whatever comes until nothing is on its way; raises BenchError."""
        names = queues or (QUEUE,)

        def done() -> bool:
            for queue in names:
                settle(self.store, WORKER, self.store.read(WORKER, {queue: 500}, 0))
            return not any(self.waiting(queue) for queue in names)

        until(done, "everything on its way to be settled", PATIENCE)

    # -- books ---------------------------------------------------------------------------------

    def refused(self) -> int:
        """Return how many writes the server has ever refused for their epoch."""
        found: Any = self.client.info("errorstats").get("errorstat_TQFENCED", {})
        return int(found.get("count", 0))

    def fenced(self) -> int:
        """Return how many writes were refused for their epoch in this run."""
        return self.refused() - self._refused

    def shown(self, *, late_writes: int = 0, two_leaders: float = 0.0, refused: int = 0) -> Shown:
        """Balance the books."""
        records = self.scene.records()
        times = Counter(each.key for each in records)
        verified = verify(self.client, self.scene.keys)
        return Shown(
            stale=len(stale(records)),
            lost=self.submitted - len(times),
            settled_twice=sum(count > 1 for count in times.values()),
            late_writes=late_writes,
            two_leaders=two_leaders,
            refused=refused,
            broken=[word for word, found in verified.by_promise().items() if found],
        )
