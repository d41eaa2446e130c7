"""The arms of a comparison by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from baseline.queues import DYNAMIC_LEVELS, LEVELS, QUEUE, lists, queue_of
from bench.harness.arm import Arm
from bench.harness.errors import BenchError
from bench.harness.servers import RabbitMQServer, RedisServer
from bench.harness.stock_arms import RabbitMQArm, RedisArm, RedisPlusArm
from bench.harness.tq_arm import TQArm
from tq_celery.setting_checks import did_you_mean

__all__ = [
    "ARMS",
    "Arm",
    "RabbitMQArm",
    "RedisArm",
    "RedisPlusArm",
    "Servers",
    "TQArm",
    "make_arm",
]


class Servers(Protocol):
    """The servers of a run; asking for one starts it, BenchError when it cannot be."""

    @property
    def redis(self) -> RedisServer: ...

    @property
    def rabbitmq(self) -> RabbitMQServer: ...


@dataclass(frozen=True)
class Plan:
    """What an arm is made for: the namespace of its run, and the tenants it will see."""

    namespace: str
    tenants: tuple[str, ...]
    weights: tuple[tuple[str, float], ...]
    prefetch: int | None


def _redis(servers: Servers, plan: Plan) -> Arm:
    return RedisArm(servers.redis, prefetch=plan.prefetch)


def _redis_priority(servers: Servers, plan: Plan) -> Arm:
    return RedisArm(
        servers.redis, "redis-priority", "baseline.redis_priority_app",
        prefetch=plan.prefetch, lists=lists(LEVELS),
    )  # fmt: skip


def _dynamic_priority(servers: Servers, plan: Plan) -> Arm:
    return RedisArm(
        servers.redis, "dynamic-priority", "baseline.dynamic_priority_app",
        prefetch=plan.prefetch, lists=lists(DYNAMIC_LEVELS),
    )  # fmt: skip


def _tenant_queues(servers: Servers, plan: Plan) -> Arm:
    return RedisArm(
        servers.redis, "tenant-queues", "baseline.tenant_queues_app",
        prefetch=plan.prefetch, lists=(QUEUE, *map(queue_of, plan.tenants)), tenants=plan.tenants,
    )  # fmt: skip


def _redis_plus(servers: Servers, plan: Plan) -> Arm:
    return RedisPlusArm(servers.redis, "redis-plus", prefetch=plan.prefetch)


def _rabbitmq(servers: Servers, plan: Plan) -> Arm:
    return RabbitMQArm(servers.rabbitmq, prefetch=plan.prefetch)


def _rabbitmq_priority(servers: Servers, plan: Plan) -> Arm:
    return RabbitMQArm(
        servers.rabbitmq, "rabbitmq-priority", "baseline.rabbitmq_priority_app",
        prefetch=plan.prefetch,
    )  # fmt: skip


def _tq(policy: str) -> Callable[[Servers, Plan], Arm]:
    # Prefetching is no setting here: the worker measures its read-ahead itself.
    return lambda servers, plan: TQArm(
        servers.redis, f"tq-{policy}", policy=policy,
        namespace=plan.namespace, weights=plan.weights,
    )  # fmt: skip


_MAKERS: Mapping[str, Callable[[Servers, Plan], Arm]] = {
    "redis": _redis,
    "redis-priority": _redis_priority,
    "rabbitmq": _rabbitmq,
    "rabbitmq-priority": _rabbitmq_priority,
    "tenant-queues": _tenant_queues,
    "dynamic-priority": _dynamic_priority,
    "redis-plus": _redis_plus,
    **{f"tq-{policy}": _tq(policy) for policy in ("fifo", "priority", "edf", "wfq", "none")},
}
#: Every arm's name: stock Celery first, ours behind it.
ARMS = tuple(_MAKERS)


def make_arm(
    name: str,
    servers: Servers,
    namespace: str = "bench",
    *,
    tenants: Sequence[str] = (),
    weights: Mapping[str, float] | None = None,
    prefetch: int | None = 1,
) -> Arm:
    """Return the arm called ``name``; only the servers it needs are asked for.

    ``tenants`` are those a workload will name (``tenant-queues`` has a queue for each), ``weights``
    their shares where they are not 1, which stock Celery cannot give. ``prefetch`` is the
    multiplier of stock workers: with late acks 1 means that a worker holds no more than it runs,
    which every order of the broker's depends on. Raises BenchError for an unknown name.
    """
    make = _MAKERS.get(name)
    if make is None:
        hint = did_you_mean(name.lower(), ARMS)
        raise BenchError(f"arm: {name!r} is not one of {', '.join(ARMS)}{hint}")
    plan = Plan(namespace, tuple(tenants), tuple((weights or {}).items()), prefetch)
    return make(servers, plan)
