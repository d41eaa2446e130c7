"""The course of most arms: a leader dies, then the primary; whoever led meanwhile comes back."""

from __future__ import annotations

import time

from bench.experiments.storefault.cast import Cast, Course
from bench.experiments.storefault.plan import Arm, Plan
from bench.harness.errors import BenchError
from bench.harness.failures import signals
from bench.harness.failures.scene import Scene
from bench.harness.sentinels import Death, SentinelCluster

__all__ = ["killed"]


def killed(
    plan: Plan, arm: Arm, cluster: SentinelCluster, scene: Scene, cast: Cast, seed: int
) -> Course:
    """Kill the primary; raises BenchError when the fault was not in effect at that moment."""
    first = cast.await_leader(())
    load = scene.load(
        plan.rate, plan.seconds, batch=plan.batch, args=(plan.task_seconds,), again=False, seed=seed
    )
    load.began()
    time.sleep(plan.before)
    if arm.fault == "cut":
        cluster.cut_off("replica")
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
    return Course([load], died, death)


def _in_effect(arm: Arm, death: Death) -> None:
    """Raise BenchError unless the primary died in the state that the arm is about."""
    heard, behind = all(death.up), death.behind > 0
    expected = {"none": (True, None), "cut": (False, True), "stall": (True, True)}[arm.fault]
    if heard != expected[0] or (expected[1] is not None and behind != expected[1]):
        raise BenchError(
            f"storefault, {arm.name}: when the primary died the replicas' links were {death.up} "
            f"and {death.behind} bytes were missing"
        )
