"""Stock Celery on Redis, on celery-redis-plus and on RabbitMQ."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import amqp

from baseline import settings
from baseline.queues import QUEUE, TENANTS
from bench.harness.servers import RabbitMQServer, RedisServer

__all__ = ["RabbitMQArm", "RedisArm", "RedisPlusArm"]


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
        # kombu calls no scripts, but EXEC stands for the commands of its transaction once more.
        calls = self.server.command_calls()
        return sum(stats.usec for command, stats in calls.items() if command != "exec")


@dataclass(frozen=True)
class RedisPlusArm(RedisArm):
    """Stock Celery on celery-redis-plus."""

    name: str = "redis-plus"
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
