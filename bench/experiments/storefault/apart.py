"""The course of the other arms: the primary lives on apart from its replicas, and comes back.

Its clients stay with it, a leader among them. A replica is promoted; a scheduler, a worker and a
producer that start now find the promoted one, so that for a while there are two of everything.
"""

from __future__ import annotations

import time

from bench.experiments.storefault.cast import Cast, Course
from bench.experiments.storefault.plan import Arm, Plan
from bench.harness.failures import signals
from bench.harness.failures.scene import Scene
from bench.harness.sentinels import Death, SentinelCluster

__all__ = ["apart"]

#: Seconds after which a Sentinel makes a primary of old a replica, and some more.
COMES_BACK = 12.0


def apart(
    plan: Plan, arm: Arm, cluster: SentinelCluster, scene: Scene, cast: Cast, seed: int
) -> Course:
    """Cut the primary and its clients off from all others for ``plan.held`` seconds, and heal."""

    def load(seconds: float, seed: int) -> None:
        scene.load(
            plan.rate, seconds, batch=plan.batch, args=(plan.task_seconds,), again=False, seed=seed
        )

    first = cast.await_leader(())
    load(plan.seconds + COMES_BACK, seed)
    scene.loads[0].began()
    time.sleep(plan.before)
    cluster.cut_off("replica", "sentinel")
    reached = tuple(link.offset for link in cluster.links())
    before = cast.terms()
    signals.kill(first)
    if arm.leads:
        cast.await_leader(before)
    cluster.promoted()
    known = cast.terms()
    cast.enter(schedulers=1, worker=False)
    cast.await_leader(known)
    scene.worker("threads", plan.slots, wait=False)
    load(plan.held, seed + 1000)
    scene.loads[1].began()
    time.sleep(plan.held)
    offset = cluster.offset()
    cluster.rejoin()
    died, at = time.monotonic(), time.time_ns() // 1_000_000
    if arm.leads:
        cast.await_newer(known)
    return Course(scene.loads, died, Death(at, offset, (False, False), reached))
