"""Runs one arm: submit, watch, and account for every task until the last one has finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tq_celery.errors import ReplayError
from tq_celery.replay.arm import build_app
from tq_celery.replay.cluster import Cluster, ClusterShape
from tq_celery.replay.feed import Event
from tq_celery.replay.pacing import Producer, Submitted
from tq_celery.replay.stats import Served
from tq_celery.workloads.work import Work

__all__ = ["Record", "Run", "Watcher", "run_arm"]

#: Seconds between two looks at what workers wrote.
LOOK = 0.1

#: Jobs below zero warm the path up: the leader is elected and every connection is made.
_WARM_UP = -1

#: Seconds for the first task to pass through the whole path.
WARM_UP_TIMEOUT = 30.0


class Record(NamedTuple):
    """One task from its submission to its end; times are wall clock seconds."""

    work: Work
    submitted: float
    lag: float
    started: float
    finished: float

    @property
    def served(self) -> Served:
        """The part that statistics need."""
        return Served(self.work.tenant, self.submitted, self.started, self.finished)


@dataclass(slots=True)
class Run:
    """One arm as it goes; ``records`` has what finished, in the order of finishing."""

    policy: str
    total: int
    records: list[Record] = field(default_factory=list)
    waiting: dict[int, Submitted] = field(default_factory=dict)
    running: dict[int, tuple[Submitted, float]] = field(default_factory=dict)
    submitted: int = 0
    #: Executions beyond the first of a task: delivery is at least once.
    repeats: int = 0
    began: float = 0.0

    @property
    def finished(self) -> int:
        """How many tasks are done."""
        return len(self.records)

    def submit(self, items: Iterable[Submitted]) -> None:
        """Note what was handed to Celery."""
        for item in items:
            self.waiting[item.work.job] = item
            self.submitted += 1

    def apply(self, event: Event) -> None:
        """Note what a worker did; only the first execution of a task counts."""
        if event.kind == "S":
            item = self.waiting.pop(event.job, None)
            if item is not None:
                self.running[event.job] = (item, event.at)
            elif event.job >= 0:
                self.repeats += 1
        elif event.kind == "F" and event.job in self.running:
            item, started = self.running.pop(event.job)
            self.records.append(Record(item.work, item.at, item.lag, started, event.at))


#: Called several times a second with the run as it stands.
Watcher = Callable[[Run], None]


def run_arm(
    policy: str,
    shape: ClusterShape,
    works: Iterable[Work],
    total: int,
    *,
    watch: Watcher = lambda run: None,
    patience: float = 60.0,
) -> Run:
    """Run ``works`` (``total`` of them) through real workers under ``policy``.

    Returns when every task has finished. Raises ReplayError when a process ends, the producer
    fails, fewer tasks appear than announced, or nothing happens for ``patience`` seconds; the
    processes are ended in every case.
    """
    with Cluster(policy, shape) as cluster:
        app, task = build_app(cluster.arm)
        run = Run(policy, total)

        def send(work: Work) -> None:
            task.apply_async((work.job, work.seconds, work.tenant, work.cost))

        try:
            _warm_up(cluster, task)
            run.began = time.time()
            producer = Producer(works, send)
            producer.start()
            try:
                _follow(cluster, producer, run, watch, patience)
            finally:
                producer.halt()
        finally:
            app.close()
    return run


def _warm_up(cluster: Cluster, task: object) -> None:
    task.apply_async((_WARM_UP, 0.0, "warm-up", 1.0))  # type: ignore[attr-defined]
    give_up = time.monotonic() + WARM_UP_TIMEOUT
    while not any(event.kind == "F" for event in cluster.poll()):
        if time.monotonic() > give_up:
            raise ReplayError(
                f"the first task did not run within {WARM_UP_TIMEOUT:g} s; "
                f"worker: {cluster.processes.last_words('worker 1')}"
            )
        time.sleep(0.02)


def _follow(
    cluster: Cluster, producer: Producer, run: Run, watch: Watcher, patience: float
) -> None:
    moved = time.monotonic()
    while True:
        alive = producer.is_alive()  # asked first: what it submitted last must not be missed
        events = cluster.poll()
        taken = producer.taken()
        run.submit(taken)
        for event in events:
            run.apply(event)
        watch(run)
        if producer.error is not None:
            raise ReplayError(
                f"submitting stopped after {run.submitted} of {run.total} tasks: {producer.error}"
            ) from producer.error
        if not alive and run.finished == run.submitted:
            break
        idle = alive and not run.waiting and not run.running
        moved = time.monotonic() if events or taken or idle else moved
        longest = max((item.work.seconds for item, _ in run.running.values()), default=0.0)
        if time.monotonic() - moved > patience + longest:
            raise ReplayError(
                f"nothing has moved for {patience + longest:.0f} s with {len(run.waiting)} tasks "
                f"waiting and {len(run.running)} running"
            )
        time.sleep(LOOK)
    if run.submitted != run.total:
        raise ReplayError(f"the trace gave {run.submitted} tasks instead of {run.total}")
