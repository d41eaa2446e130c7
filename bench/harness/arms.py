"""The arms of a comparison: an application, its broker, and how much work it still holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import amqp

from baseline import settings
from bench.harness.servers import RabbitMQServer, RedisServer
from tq_celery.store.keys import Keys

__all__ = ["Arm", "RabbitMQArm", "RedisArm", "RedisPlusArm", "TQArm"]


class Arm(Protocol):
    """One side of a comparison."""

    @property
    def name(self) -> str:
        """The word in tables and JSON."""

    @property
    def app(self) -> str:
        """Module of the Celery application."""

    @property
    def scheduled(self) -> bool:
        """Whether a scheduler process is on the path."""

    @property
    def env(self) -> Mapping[str, str]:
        """Environment of its producer, worker and scheduler."""

    def reset(self) -> None:
        """Forget all work of earlier runs."""

    def unsettled(self) -> int | None:
        """Return tasks sent and not acknowledged; ``None`` when the broker cannot tell cheaply."""

    def left(self) -> int:
        """Return tasks that are still there after the worker has stopped."""

    def server_cpu(self) -> float:
        """Return CPU seconds of the server that carries the tasks."""


@dataclass(frozen=True)
class RedisArm:
    """Stock Celery on kombu's Redis transport."""

    server: RedisServer
    name: str = "redis"
    app: str = "baseline.redis_app"
    scheduled: bool = False

    @property
    def env(self) -> Mapping[str, str]:
        return {settings.BROKER: self.server.url()}

    def reset(self) -> None:
        self.server.client.flushall()

    def unsettled(self) -> int | None:
        # Ready tasks are a list; tasks handed to the worker wait for their ack in a hash.
        waiting, unacked = (
            self.server.client.pipeline(transaction=True).llen("celery").hlen("unacked").execute()
        )
        return int(waiting) + int(unacked)

    def left(self) -> int:
        return self.unsettled() or 0

    def server_cpu(self) -> float:
        return self.server.cpu()


@dataclass(frozen=True)
class RedisPlusArm(RedisArm):
    """Stock Celery on celery-redis-plus."""

    name: str = "redis_plus"
    app: str = "baseline.redis_plus_app"

    def unsettled(self) -> int | None:
        # One hash per message until it is acknowledged, indexed per queue by a sorted set.
        return int(self.server.client.zcard("messages_index:celery"))


@dataclass(frozen=True)
class RabbitMQArm:
    """Stock Celery on RabbitMQ."""

    server: RabbitMQServer
    name: str = "rabbitmq"
    app: str = "baseline.rabbitmq_app"
    scheduled: bool = False

    @property
    def env(self) -> Mapping[str, str]:
        return {settings.BROKER: self.server.url()}

    def _channel(self) -> Any:
        connection = amqp.Connection(f"127.0.0.1:{self.server.port}", "guest", "guest")
        connection.connect()
        return connection.channel()

    def reset(self) -> None:
        channel = self._channel()
        channel.queue_delete("celery")
        channel.connection.close()

    def unsettled(self) -> int | None:
        # AMQP tells a client how many messages are ready, never how many are unacknowledged.
        return None

    def left(self) -> int:
        channel = self._channel()
        # Unacknowledged messages are ready again once their consumer's connection is gone.
        count = int(channel.queue_declare("celery", passive=True).message_count)
        channel.connection.close()
        return count

    def server_cpu(self) -> float:
        return self.server.cpu()


@dataclass(frozen=True)
class TQArm:
    """Celery on Redis with ``TQ`` attached: tasks pass through the scheduler."""

    server: RedisServer
    name: str = "tq"
    app: str = "bench.harness.tq_app"
    scheduled: bool = True
    policy: str = "wfq"
    namespace: str = "bench"

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

    def unsettled(self) -> int | None:
        return sum(map(int, self.server.client.hvals(Keys(self.namespace).name("live"))))

    def left(self) -> int:
        return self.unsettled() or 0

    def server_cpu(self) -> float:
        return self.server.cpu()
