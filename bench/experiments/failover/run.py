"""A cluster under steady load whose leader is stopped, killed or frozen again and again."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.experiments.failover.moments import Grants, Trial, trials
from bench.experiments.failover.plan import Course, Plan
from bench.experiments.failover.watch import Watch, read
from bench.harness import books
from bench.harness.errors import BenchError
from bench.harness.failures import signals
from bench.harness.failures.scene import Scene
from bench.harness.process import Process, until
from bench.harness.report import progress
from tq_celery.embedded import free_port
from tq_celery.scheduler.epochs import NEWER

__all__ = ["Cluster", "Found", "blocks", "reason", "torment"]

#: Seconds for a cluster to come to rest, to take over, and to settle everything.
PATIENCE = 120.0
#: Seconds of load before the first trial: connections, lazy imports and scripts are then in place.
WARM_UP = 1.0
#: The load is steady when no more tasks wait than are sent in this time (seconds) ...
WAITING = 0.05
#: ... for so long (seconds).
STEADY = 1.0
#: Seconds beyond the lease within which a cluster without a standby is watched.
BEYOND = 1.0
#: What a scheduler says when its term is over, and what ended it: a refused write, a renewal that
#: came too late, or a worker that has had a task from a newer leader.
_ENDED = {"refused by the fence": "fence", "the lease is gone": "lease", NEWER: "worker"}
#: Longer than any cluster lives, seconds: the load ends when it is told to.
FOR_EVER = 7_200.0


@dataclass(frozen=True, slots=True)
class Found:
    """One cluster: its trials, its tasks, and the promises that ``tq verify`` found broken."""

    arm: str
    ttl: float
    trials: Sequence[Trial]
    tasks: int
    violations: Sequence[str]


def blocks(count: int, together: int) -> list[range]:
    """Return the numbers of ``count`` trials in runs of ``together`` at most, as even as can be."""
    clusters = -(-count // together)
    edges = [round(index * count / clusters) for index in range(clusters + 1)]
    return [range(edges[index], edges[index + 1]) for index in range(clusters)]


def torment(url: str, plan: Plan, arm: str, ttl: float, numbers: Sequence[int]) -> Found:
    """Run the trials ``numbers`` of one arm on a cluster of its own.

    A cluster that does not come up, does not recover, or does not settle every task that was
    accepted has no trials, and that it did not as its violation: a long run goes on without it.
    """
    try:
        with Scene(url, ttl=ttl, namespace=f"failover-{arm}-{ttl:g}-{numbers[0]}") as scene:
            return Cluster(scene, plan, arm).run(numbers)
    except BenchError as error:
        progress(f"failover {arm} {ttl:g} s: {error.message}")
        return Found(arm, ttl, [], 0, [error.message])


def reason(log: str, epoch: int) -> str:
    """Return what a scheduler's log says ended its term: a word of ``_ENDED``, or its own words.

    Empty when that term is not over.
    """
    for line in log.splitlines():
        if "no longer leading" in line and f" epoch={epoch} " in line:
            words = line.partition("reason=")[2].strip().strip('"')
            return _ENDED.get(words, words)
    return ""


class Cluster:
    """The schedulers of a scene with their metrics, a worker and a load."""

    def __init__(self, scene: Scene, plan: Plan, arm: str) -> None:
        self.scene, self.plan, self.arm = scene, plan, arm
        self._ports: dict[int, int] = {}
        self._fenced: dict[int, int] = {}

    def run(self, numbers: Sequence[int]) -> Found:
        """Do the trials, then let everything settle and balance the books."""
        scene, plan = self.scene, self.plan
        for _ in range(1 if self.arm == "single" else 2):
            self.add()
        scene.await_leader()
        scene.worker("threads", plan.slots)
        seed = plan.seed * 1_000 + numbers[0]
        load = scene.load(plan.rate, FOR_EVER, seed=seed, args=(plan.task_seconds,))
        load.began()
        time.sleep(WARM_UP)
        courses = []
        with Watch(self.ports, plan.sample) as watch:
            for number in numbers:
                load.check()
                self.steady()
                watch.take()
                course = Course(self.arm, scene.ttl, number, time.monotonic())
                # The kill meets the lease at any point between two renewals.
                time.sleep(random.Random(seed + number).uniform(0, scene.ttl / 4))
                getattr(self, f"_{self.arm}")(course)
                course.leaders, course.samples = watch.take()
                courses.append(course)
                progress(f"failover {self.arm} {scene.ttl:g} s: trial {number + 1}/{plan.trials}")
        load.process.stop()
        scene.drained(PATIENCE)
        started = (each.id for each in scene.bodies() if not each.ended)
        found = trials(courses, scene.records(), load.accepted(), started, self._grants())
        return Found(self.arm, scene.ttl, found, scene.settled(), scene.broken())

    # -- the processes -------------------------------------------------------------------------

    def add(self) -> Process:
        """Start a scheduler; it leads or stands by when this returns."""
        port = free_port()
        process = self.scene.scheduler(env={"TQ_METRICS_PORT": str(port)})
        self._ports[process.pid] = port

        def ready() -> bool:
            process.check()
            metrics = read(port)
            return metrics is not None and bool(metrics.get("tq_scheduler_ready"))

        until(ready, f"{process.name} to be ready", PATIENCE, 0.1)
        return process

    def ports(self) -> list[int]:
        """Return where the schedulers that run answer scrapes."""
        running = (each.pid for each in self.scene.schedulers if each.alive)
        return [self._ports[pid] for pid in running if pid in self._ports]

    def steady(self) -> None:
        """Wait until the schedulers have kept up with the load for a while."""
        most, since = max(20.0, self.plan.rate * WAITING), [time.monotonic()]

        def kept_up() -> bool:
            counted = books.counters(self.scene.client, self.scene.keys)
            if counted["submitted"] + counted["pending"] > most:
                since[0] = time.monotonic()
            return time.monotonic() - since[0] > STEADY

        until(kept_up, "the backlog of the outage to be worked off", PATIENCE, 0.1)

    def _taken_over(self, epoch: int) -> None:
        """Wait until a leader later than that of ``epoch`` has written."""
        client, fence = self.scene.client, self.scene.keys.name("fence")
        until(lambda: int(client.get(fence) or 0) > epoch, "a standby to take over", PATIENCE, 0.05)

    # -- what happens to the leader ------------------------------------------------------------

    def _none(self, course: Course) -> None:
        course.event = self.scene.now()
        time.sleep(self.plan.seconds)
        course.ended = self.scene.now()

    def _graceful(self, course: Course) -> None:
        leader = self._about(course)
        leader.signal(signal.SIGTERM)
        course.shown = course.event
        self._taken_over(course.epoch)
        until(lambda: not leader.alive, "the leader to end", PATIENCE)
        self._recovered(course)

    def _crash(self, course: Course) -> None:
        signals.kill(self._about(course))
        self._left(course)
        self._taken_over(course.epoch)
        self._recovered(course)

    def _single(self, course: Course) -> None:
        signals.kill(self._about(course))
        self._left(course)
        time.sleep(self.scene.ttl + BEYOND)
        course.ended = self.scene.now()
        self.add()  # by hand, after the watch: what was accepted must not be lost

    def _pause(self, course: Course) -> None:
        leader = self._about(course)
        signals.freeze(leader)
        self._left(course)
        frozen = time.monotonic()
        self._taken_over(course.epoch)
        time.sleep(max(0.0, frozen + 2 * self.scene.ttl - time.monotonic()))
        signals.resume(leader)
        time.sleep(self.plan.afterwards)
        leader.check()
        metrics = read(self._ports[leader.pid])
        if metrics is None:
            raise BenchError("the leader that was resumed answers no scrape")
        course.fenced = self._refused(leader, metrics)
        course.stopped_by = reason(leader.output(), course.epoch)
        course.ended = self.scene.now()

    def _about(self, course: Course) -> Process:
        """Return the leader, and note what is known right before the signal."""
        leader = self.scene.await_leader()
        course.epoch = int(self.scene.client.get(self.scene.keys.name("epoch")))
        course.event = self.scene.now()
        return leader

    def _left(self, course: Course) -> None:
        """Note when the lease will be free that a leader left behind."""
        course.shown = self.scene.now()
        left = self.scene.client.pttl(self.scene.keys.name("leader"))
        course.free = course.shown + max(0, left)

    def _recovered(self, course: Course) -> None:
        time.sleep(0.2)  # what follows the first dispatch belongs to the trial
        course.ended = self.scene.now()
        self.add()

    def _refused(self, leader: Process, metrics: Mapping[str, float]) -> int:
        """Return the writes of ``leader`` that the fence refused since the last call for it."""
        total = int(metrics["tq_scheduler_fenced_writes_total"])
        before, self._fenced[leader.pid] = self._fenced.get(leader.pid, 0), total
        return total - before

    # -- the books -----------------------------------------------------------------------------

    def _grants(self) -> Grants:
        found: dict[bytes, dict[int, int]] = {b"granted": {}, b"released": {}}
        for entry, fields in self.scene.client.xrange(self.scene.keys.name("leadership")):
            if fields[b"k"] in found:
                found[fields[b"k"]][int(fields[b"epoch"])] = int(entry.partition(b"-")[0])
        return Grants(found[b"granted"], found[b"released"])
