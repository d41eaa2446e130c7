"""The arm under test."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from baseline import settings
from bench.harness.measure import total_microseconds
from bench.harness.servers import RedisServer
from tq_celery.settings import Settings
from tq_celery.store.inspect import Inspector
from tq_celery.store.keys import Keys
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.wipe import wipe

__all__ = ["TQArm"]

#: Commands that a scheduler's processes send beside their scripts.
_DIRECT = ("xread", "xreadgroup", "hmget")


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
        return total_microseconds(self.server.command_calls(), direct=_DIRECT)
