"""A fleet of workers that is never the limit: it takes what is dispatched and fails it at once.

A thousand tasks can fail in one moment only where hundreds of slots run them. This machine has no
room for those, so the fleet speaks to the store itself, in bulk: real deliveries of a real
scheduler, settled and retried by the same scripts as a worker's. The sleeps are drawn by the code
that draws them in a worker, Celery's and ours.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence

from celery.utils.time import get_exponential_backoff_interval

from bench.experiments.retrystorm.moments import BASE, CAP, Moments
from bench.harness import cluster
from bench.harness.arms import TQArm
from bench.harness.errors import BenchError
from bench.harness.process import until
from bench.harness.servers import RedisServer
from tq_celery.backoff import Backoff
from tq_celery.settings import Settings
from tq_celery.states import Outcome
from tq_celery.store.contract import (
    Delivery,
    Limits,
    Settlement,
    Submission,
    WorkerAnnouncement,
)
from tq_celery.store.keys import Keys
from tq_celery.store.record import TaskKey
from tq_celery.store.redis_store import RedisStore

__all__ = ["Fleet", "sleeper"]

QUEUE, WORKER, DIGEST = "celery", "fleet", b"storm...storm..."
#: Returns the next sleep in seconds from the number of retries so far and the last sleep.
Sleeper = Callable[[int, float | None], float]


def sleeper(name: str, seed: int) -> Sleeper:
    """Return what decides the sleeps of one arm, with its chance seeded."""
    if name == "decorrelated":
        backoff, rng = Backoff(BASE, CAP), random.Random(seed)
        return lambda retries, last: backoff.next(last, rng.uniform)
    random.seed(seed)  # Celery draws from the interpreter's own generator
    jitter = name == "full_jitter"
    return lambda retries, last: get_exponential_backoff_interval(BASE, retries, CAP, jitter)


class Fleet:
    """One storm of one arm."""

    def __init__(self, server: RedisServer, name: str, tasks: int, failures: int, seed: int):
        self._server, self._name = server, name
        self._tasks, self._failures = tasks, failures
        self._sleep = sleeper(name, seed)
        self._last: dict[str, float] = {}
        self.moments = Moments([], [], [])

    def run(self) -> Moments:
        """Run it to its end; raises BenchError when a task is lost or tried too often."""
        arm = TQArm(self._server)
        arm.reset()
        settings = Settings(url=self._server.url(), namespace=arm.namespace)
        with contextlib.ExitStack() as stack:
            scheduler = stack.enter_context(cluster.scheduler(arm))
            leader = Keys(arm.namespace).name("leader")
            until(lambda: bool(self._server.client.exists(leader)), "the scheduler to lead", 30)
            store = stack.enter_context(contextlib.closing(RedisStore.open(settings)))
            self._renew(store)
            self._send(store, [(TaskKey(f"storm-{n}"), None, 2.0) for n in range(self._tasks)])
            give_up = time.monotonic() + 60 + 12 * self._failures
            done, renewed = 0, time.monotonic()
            while done < self._tasks:
                scheduler.check()
                if time.monotonic() > give_up:
                    raise BenchError(f"{self._name}: {done} of {self._tasks} tasks ended")
                if time.monotonic() - renewed > 5:
                    self._renew(store)
                    renewed = time.monotonic()
                done += self._serve(store, store.read(WORKER, {QUEUE: 500}, 100))
        expected = (self._tasks, *[self._tasks * self._failures] * 2)
        if tuple(map(len, self.moments)) != expected:
            raise BenchError(f"{self._name}: {tuple(map(len, self.moments))}, not {expected}")
        return self.moments

    def _renew(self, store: RedisStore) -> None:
        store.renew(WorkerAnnouncement(WORKER, (QUEUE,), 100_000, 0), 60_000)

    def _serve(self, store: RedisStore, deliveries: list[Delivery]) -> int:
        """Fail what was delivered, at one moment, or end it; returns how many ended."""
        now = time.monotonic()
        retried, settled, ended = [], [], 0
        for delivery in deliveries:
            key = TaskKey.decode(delivery.key)
            (self.moments.started if key.retries else self.moments.failed).append(now)
            fails = key.retries < self._failures
            if fails:
                sleep = self._sleep(key.retries, self._last.get(key.id))
                self._last[key.id] = sleep
                retried.append((key._replace(retries=key.retries + 1), delivery, sleep))
                self.moments.due.append(now + sleep)
            ended += not fails
            outcome = Outcome.RETRIED if fails else Outcome.COMPLETED
            settled.append(Settlement(delivery.token, outcome, delivery.digest))
        if retried:
            self._send(store, retried)
        if settled and not all(store.complete(WORKER, settled)):
            raise BenchError("a delivery was taken away from the fleet")
        return ended

    def _send(
        self, store: RedisStore, items: Sequence[tuple[TaskKey, Delivery | None, float]]
    ) -> None:
        receipts = store.submit_many(
            [
                Submission(
                    key, QUEUE, b"storm", b"x" * 300, DIGEST, delay=round(sleep * 1000),
                    parent=parent.token if parent is not None else None,
                )
                for key, parent, sleep in items
            ],
            Limits(),
        )  # fmt: skip
        refused = [each for each in receipts if getattr(each, "status", "") != "accepted"]
        if refused:
            raise BenchError(f"{len(refused)} retries were refused: {refused[0]}")
