"""The arms of a comparison: an application, its broker, and how much work it still holds."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol

import amqp

from baseline import settings
from baseline.queues import DYNAMIC_LEVELS, LEVELS, QUEUE, TENANTS, lists, queue_of
from bench.harness.errors import BenchError
from bench.harness.measure import total_microseconds
from bench.harness.servers import RabbitMQServer, RedisServer
from tq_celery.settings import Settings
from tq_celery.store.inspect import Inspector
from tq_celery.store.keys import Keys
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.wipe import wipe

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

#: Commands that a scheduler's processes send beside their scripts.
_OURS_DIRECT = ("xread", "xreadgroup", "hmget")


class Servers(Protocol):
    """The servers of a run; asking for one starts it, BenchError when it cannot be."""

    @property
    def redis(self) -> RedisServer: ...

    @property
    def rabbitmq(self) -> RabbitMQServer: ...


class Arm(Protocol):
    """One side of a comparison."""

    @property
    def name(self) -> str:
        """The word in tables and JSON."""

    @property
    def app(self) -> str:
        """Module of the Celery application: ``app``, ``TASKS`` and ``options(work)``."""

    @property
    def scheduled(self) -> bool:
        """Whether a scheduler process is on the path."""

    @property
    def prefetch(self) -> int | None:
        """Celery's prefetch multiplier for its workers; ``None`` leaves Celery's default."""

    @property
    def env(self) -> Mapping[str, str]:
        """Environment of its producer, worker and scheduler."""

    def reset(self) -> None:
        """Forget all work of earlier runs."""

    def delete(self) -> None:
        """Leave nothing on the server; for the end of a run, when no process uses it any more."""

    def unsettled(self) -> int | None:
        """Return tasks sent and not acknowledged; ``None`` when the broker cannot tell cheaply."""

    def left(self) -> int:
        """Return tasks that are still there after the worker has stopped."""

    def dead_letters(self) -> list[dict[str, object]]:
        """Return what was given up; stock brokers know no such thing."""

    def server_cpu(self) -> float:
        """Return CPU seconds of the server that carries the tasks."""

    def server_us(self) -> float:
        """Return the server's own account of microseconds in commands so far; 0: it keeps none."""


@dataclass(frozen=True)
class RedisArm:
    """Stock Celery on kombu's Redis transport; ``lists`` are the keys of its queues."""

    server: RedisServer
    name: str = "redis"
    app: str = "baseline.redis_app"
    scheduled: bool = False
    prefetch: int | None = None
    lists: tuple[str, ...] = (QUEUE,)
    tenants: tuple[str, ...] = ()

    @property
    def env(self) -> Mapping[str, str]:
        return {settings.BROKER: self.server.url(), TENANTS: ",".join(self.tenants)}

    def reset(self) -> None:
        self.server.client.flushall()

    def delete(self) -> None:
        self.reset()

    def unsettled(self) -> int | None:
        # Ready tasks are in lists; tasks handed to the worker wait for their ack in a hash.
        pipe = self.server.client.pipeline(transaction=True).hlen("unacked")
        for name in self.lists:
            pipe.llen(name)
        return sum(map(int, pipe.execute()))

    def left(self) -> int:
        return self.unsettled() or 0

    def dead_letters(self) -> list[dict[str, object]]:
        return []

    def server_cpu(self) -> float:
        return self.server.cpu()

    def server_us(self) -> float:
        # kombu calls no scripts, so no command is counted twice.
        return sum(stats.usec for stats in self.server.command_calls().values())


@dataclass(frozen=True)
class RedisPlusArm(RedisArm):
    """Stock Celery on celery-redis-plus."""

    name: str = "redis_plus"
    app: str = "baseline.redis_plus_app"

    def unsettled(self) -> int | None:
        # One hash per message until it is acknowledged, indexed per queue by a sorted set.
        return int(self.server.client.zcard("messages_index:celery"))

    def server_us(self) -> float:
        # The commands of its scripts are sent by clients too: a sum would count them twice.
        return 0.0


@dataclass(frozen=True)
class RabbitMQArm:
    """Stock Celery on RabbitMQ."""

    server: RabbitMQServer
    name: str = "rabbitmq"
    app: str = "baseline.rabbitmq_app"
    scheduled: bool = False
    prefetch: int | None = None

    @property
    def env(self) -> Mapping[str, str]:
        return {settings.BROKER: self.server.url()}

    @contextlib.contextmanager
    def _channel(self) -> Iterator[Any]:
        connection = amqp.Connection(f"127.0.0.1:{self.server.port}", "guest", "guest")
        connection.connect()
        with contextlib.closing(connection):
            yield connection.channel()

    def reset(self) -> None:
        with self._channel() as channel:
            channel.queue_delete(QUEUE)

    def delete(self) -> None:
        self.reset()

    def unsettled(self) -> int | None:
        # AMQP tells a client how many messages are ready, never how many are unacknowledged.
        return None

    def left(self) -> int:
        with self._channel() as channel:
            # Unacknowledged messages are ready again once their consumer's connection is gone.
            return int(channel.queue_declare(QUEUE, passive=True).message_count)

    def dead_letters(self) -> list[dict[str, object]]:
        return []

    def server_cpu(self) -> float:
        return self.server.cpu()

    def server_us(self) -> float:
        return 0.0


@dataclass(frozen=True)
class TQArm:
    """Celery on Redis with ``TQ`` attached: tasks pass through the scheduler.

    ``weights`` are the tenants' shares where they are not 1.
    """

    server: RedisServer
    name: str = "tq"
    app: str = "bench.harness.tq_app"
    scheduled: bool = True
    policy: str = "wfq"
    namespace: str = "bench"
    prefetch: int | None = None
    weights: tuple[tuple[str, float], ...] = ()

    @property
    def env(self) -> Mapping[str, str]:
        return {
            settings.BROKER: self.server.url(),
            "TQ_URL": self.server.url(),
            "TQ_NAMESPACE": self.namespace,
            "TQ_POLICY": self.policy,
        }

    def reset(self) -> None:
        self.server.client.flushall()
        if self.weights:
            loaded = Settings.load(None, url=self.server.url(), namespace=self.namespace)
            with contextlib.closing(RedisStore.open(loaded)) as store:
                for tenant, weight in self.weights:
                    store.set_weight(tenant.encode(), weight)

    def delete(self) -> None:
        wipe(self.server.client, Keys(self.namespace))

    def unsettled(self) -> int | None:
        return sum(map(int, self.server.client.hvals(Keys(self.namespace).name("live"))))

    def left(self) -> int:
        return self.unsettled() or 0

    def dead_letters(self) -> list[dict[str, object]]:
        inspector = Inspector(self.server.client, Keys(self.namespace))
        return [
            {
                "entry": letter.entry,
                "key": letter.key,
                "queue": letter.queue,
                "tenant": letter.tenant.decode(errors="replace"),
                "reason": letter.reason,
                "attempts": letter.attempts,
                "outcome": letter.outcome,
                "at": letter.at,
                "payload": letter.payload.decode(errors="replace"),
            }
            for letter in inspector.dead(max(1, inspector.dead_count()))
        ]

    def server_cpu(self) -> float:
        return self.server.cpu()

    def server_us(self) -> float:
        return total_microseconds(self.server.command_calls(), direct=_OURS_DIRECT)


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
        near = get_close_matches(name.lower(), ARMS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise BenchError(f"arm: {name!r} is not one of {', '.join(ARMS)}{hint}")
    plan = Plan(namespace, tuple(tenants), tuple((weights or {}).items()), prefetch)
    return make(servers, plan)
