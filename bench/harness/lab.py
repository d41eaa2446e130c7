"""The servers of a run, started once, and the arms that stand on them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import TracebackType

from bench.harness.arms import Arm, make_arm
from bench.harness.servers import RabbitMQServer, RedisServer, rabbitmq_server, redis_server

__all__ = ["Lab"]


#: Settings of a Redis that cost time, or lose keys.
_REDIS_SETTINGS = ("appendonly", "hz", "io-threads", "maxmemory", "maxmemory-policy", "save")


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


class Lab:
    """A context manager; each server starts when an arm first needs it and stops at the end.

    ``server`` is the kind of Redis (see :data:`bench.harness.servers.KINDS`), ``python`` the
    interpreter of producers, workers and schedulers, ``prefetch`` Celery's multiplier by arm (1 for
    an arm without an entry: a worker then holds no more than it runs).
    """

    def __init__(
        self,
        server: str = "redis",
        python: str = sys.executable,
        prefetch: Mapping[str, int] | None = None,
    ) -> None:
        self.server, self.python = server, python
        self.prefetch = dict(prefetch or {})
        self._stack = contextlib.ExitStack()
        self._versions: list[str] = []

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @cached_property
    def redis(self) -> RedisServer:
        """The Redis or Valkey; raises BenchError when it cannot be started."""
        server = self._stack.enter_context(redis_server(self.server))
        self._versions.append(server.version)
        return server

    @cached_property
    def rabbitmq(self) -> RabbitMQServer:
        """The RabbitMQ; raises BenchError when it is not installed."""
        server = self._stack.enter_context(rabbitmq_server())
        self._versions.append(server.version)
        return server

    @property
    def versions(self) -> dict[str, str]:
        """Version lines of the servers started so far, by their kind."""
        return {line.partition(" ")[0]: line for line in self._versions}

    def configuration(self) -> dict[str, dict[str, str]]:
        """Return what decides how fast the servers started so far are, as they run, by kind."""
        found: dict[str, dict[str, str]] = {}
        if "redis" in vars(self):
            asked = self.redis.client.config_get(*_REDIS_SETTINGS)
            found[self.server] = {
                _text(name): _text(value) for name, value in sorted(asked.items())
            }
        if "rabbitmq" in vars(self):
            found["rabbitmq"] = {"queues": "classic", "messages": "transient", "+sbwt": "none"}
        return found

    def arm(
        self,
        name: str,
        namespace: str = "bench",
        *,
        tenants: Sequence[str] = (),
        weights: Mapping[str, float] | None = None,
    ) -> Arm:
        """Return an arm on these servers; see :func:`bench.harness.arms.make_arm`."""
        return make_arm(
            name, self, namespace,
            tenants=tenants, weights=weights, prefetch=self.prefetch.get(name, 1),
        )  # fmt: skip
