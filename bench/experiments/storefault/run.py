"""One trial: a leader dies, then the primary, and whoever led meanwhile comes back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from bench.experiments.storefault.account import Account, Lead, account, leads, started
from bench.experiments.storefault.plan import ARMS, Arm, Plan
from bench.harness.errors import BenchError
from bench.harness.failures import signals
from bench.harness.failures.records import dispatches
from bench.harness.failures.scene import Scene
from bench.harness.process import Process, until
from bench.harness.sentinels import Death, SentinelCluster
from bench.harness.servers import redis_server
from tq_celery.store.client import connect
from tq_celery.store.verify import verify

__all__ = ["Trial", "trial"]

SCHEDULERS = 3
#: Seconds for a scheduler to lead after a failover, and for the rest to be settled, on a machine
#: that has other work.
LEADS, DRAINS = 60.0, 90.0
PLAIN = ("-m", "bench.experiments.storefault.plain_scheduler")


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial of an arm.

    ``fault`` is the state in which the primary died, ``violations`` the promises that ``tq verify``
    finds broken on the server that took over.
    """

    arm: str
    account: Account
    fault: Death
    violations: Sequence[str]
    server: str


class _Cast:
    """The processes of a trial, and what their logs say of terms."""

    def __init__(self, arm: Arm, scene: Scene, slots: int) -> None:
        self._arm, self._scene, self._slots = arm, scene, slots

    def enter(self, *, worker: bool = True) -> None:
        """Start schedulers, and then a worker."""
        before = len(self._scene.schedulers)
        for _ in range(SCHEDULERS):
            if self._arm.plain:
                self._scene.scheduler(program=PLAIN, wait=False)
            else:
                self._scene.scheduler(wait=False)
        new = self._scene.schedulers[before:]
        until(
            lambda: all("scheduler started" in each.output() for each in new),
            "the schedulers to start", LEADS,
        )  # fmt: skip
        if worker:
            self._scene.worker("threads", self._slots)

    def terms(self) -> list[Lead]:
        """Return every term so far, of schedulers that have ended too."""
        return leads(each.output() for each in self._scene.schedulers)

    def leader(self, known: Sequence[Lead]) -> Process | None:
        """Return the living scheduler that began a term which is not in ``known``."""
        for process in self._scene.schedulers:
            if process.alive and set(leads([process.output()])) - set(known):
                return process
        return None

    def await_leader(self, known: Sequence[Lead]) -> Process:
        """Wait for a term which is not in ``known``; raises BenchError."""
        found: list[Process | None] = []

        def there() -> bool:
            found[:] = [self.leader(known)]
            return found[0] is not None

        until(there, "a scheduler to lead", LEADS)
        assert found[0] is not None
        return found[0]

    def end(self, *, workers: bool) -> None:
        """Kill all schedulers, and what they know of epochs with them."""
        for process in (*self._scene.schedulers, *(self._scene.workers if workers else ())):
            signals.kill(process)

    def await_newer(self, known: Sequence[Lead]) -> None:
        """Wait until a scheduler leads under an epoch above all ``known``; raises BenchError."""
        highest = max(epoch for epoch, _ in known)
        until(
            lambda: self.terms()[-1].epoch > highest, f"an epoch above {highest} to be led under",
            LEADS,
        )  # fmt: skip


def trial(kind: str, plan: Plan, name: str, seed: int = 1) -> Trial:
    """Run one trial of an arm on servers of ``kind``.

    Raises BenchError when the scene cannot be set, when the fault was not in effect at the moment
    of the primary's death, and when what is left does not settle.
    """
    arm = ARMS[name]
    env = {
        "TQ_LEADER_REPLICAS": str(arm.leader_replicas),
        "TQ_LOG_FORMAT": "json",
        "TQ_PUBLISH_TIMEOUT": str(plan.publish_timeout),
    }
    with ExitStack() as stack:
        broker = stack.enter_context(redis_server(kind))
        cluster = stack.enter_context(
            SentinelCluster(kind, down_after=plan.down_after, config=arm.server(plan))
        )
        client: Any = stack.enter_context(closing(connect(cluster.url, retries=3)))
        scene = stack.enter_context(
            Scene(cluster.url, broker=broker.url(), client=client, ttl=plan.ttl,
                  lease=plan.lease, env=env)
        )  # fmt: skip
        return _run(plan, arm, cluster, scene, seed)


def _run(plan: Plan, arm: Arm, cluster: SentinelCluster, scene: Scene, seed: int) -> Trial:
    cast = _Cast(arm, scene, plan.slots)
    cast.enter()
    first = cast.await_leader(())
    load = scene.load(
        plan.rate, plan.seconds, batch=plan.batch, args=(plan.task_seconds,), again=False, seed=seed
    )
    load.began()
    time.sleep(plan.before)
    if arm.fault == "cut":
        cluster.cut_replication()
    elif arm.fault == "stall":
        cluster.stall_replication()
    before = cast.terms()
    signals.kill(first)
    time.sleep(plan.held)
    second = cast.await_leader(before) if arm.leads else cast.leader(before)
    if arm.leads is False and second is not None:
        raise BenchError(f"storefault, {arm.name}: somebody led before the primary died")
    returns = second if arm.dying == "nobody" else None
    if returns is not None:
        signals.freeze(returns)
    known, died = cast.terms(), time.monotonic()
    death = cluster.kill_primary()
    _in_effect(arm, death)
    everybody = arm.dying == "everybody"
    if arm.dying != "nobody":
        cast.end(workers=everybody)
    cluster.promoted()
    if arm.dying != "nobody":
        cast.enter(worker=everybody)
    cast.await_leader(known)
    if arm.dying == "schedulers":
        cast.await_newer(known)
    if returns is not None:
        time.sleep(plan.afterwards)
        signals.resume(returns)
    load.finish()
    scene.drained(DRAINS)
    records = dispatches(scene.client, scene.keys)
    starts = started(scene.runs.read_text().splitlines())
    found = account(cast.terms(), load.calls(), records, starts, died, death.at)
    broken = [
        f"{each.promise}: {each.message} ({each.id})"
        for each in verify(scene.client, scene.keys).violations
    ]
    return Trial(arm.name, found, death, broken, cluster.version)


def _in_effect(arm: Arm, death: Death) -> None:
    """Raise BenchError unless the primary died in the state that the arm is about."""
    heard, behind = all(death.up), death.behind > 0
    expected = {"none": (True, None), "cut": (False, True), "stall": (True, True)}[arm.fault]
    if heard != expected[0] or (expected[1] is not None and behind != expected[1]):
        raise BenchError(
            f"storefault, {arm.name}: when the primary died the replicas' links were {death.up} "
            f"and {death.behind} bytes were missing"
        )
