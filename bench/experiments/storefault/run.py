"""One trial: the scene, its course, and what is found afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

from bench.experiments.storefault.account import Account, account
from bench.experiments.storefault.apart import apart
from bench.experiments.storefault.cast import Cast
from bench.experiments.storefault.killed import killed
from bench.experiments.storefault.plan import ARMS, Plan
from bench.harness.failures.records import dispatches
from bench.harness.failures.scene import Scene
from bench.harness.sentinels import Death, SentinelCluster
from bench.harness.servers import redis_server
from tq_celery.store.client import connect

__all__ = ["Trial", "trial"]

#: Seconds for the rest to be settled, on a machine that has other work.
DRAINS = 90.0


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
        cast = Cast(arm, scene, plan.slots)
        cast.enter()
        course = (apart if arm.lives else killed)(plan, arm, cluster, scene, cast, seed)
        for load in course.loads:
            load.finish()
        scene.drained(DRAINS)
        starts = Counter(each.id for each in scene.bodies() if not each.ended)
        found = account(
            cast.terms(), [call for load in course.loads for call in load.calls()],
            dispatches(scene.client, scene.keys), starts, course.died, course.fault.at,
        )  # fmt: skip
        return Trial(arm.name, found, course.fault, scene.broken(), cluster.version)
