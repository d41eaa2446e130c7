"""Real servers on free loopback ports, nothing persisted: Redis, Valkey and RabbitMQ."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from bench.harness.errors import BenchError
from bench.harness.measure import Calls, command_calls
from bench.harness.process import Process, cpu_seconds, until
from tq_celery.embedded import EmbeddedServer, free_port, valkey_binary
from tq_celery.errors import StoreUnavailableError

__all__ = [
    "KINDS",
    "RabbitMQServer",
    "RedisServer",
    "rabbitmq_server",
    "redis_server",
    "server_binary",
]

#: What ``--server`` may name.
KINDS = ("redis", "valkey")
_RABBITMQ_PLACES = ("/usr/lib/rabbitmq/bin", "/opt/homebrew/sbin", "/usr/local/sbin")


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A running Redis or Valkey; ``client`` is for the experiment's own questions."""

    pid: int
    port: int
    version: str
    client: Any

    def url(self) -> str:
        """Return the server's address."""
        return f"redis://127.0.0.1:{self.port}/0"

    def cpu(self) -> float:
        """Return the server's CPU seconds so far."""
        return cpu_seconds(self.pid)

    def command_calls(self) -> dict[str, Calls]:
        """Return the server's command statistics as they stand."""
        return command_calls(self.client.info("commandstats"))


@dataclass(frozen=True, slots=True)
class RabbitMQServer:
    """A running RabbitMQ broker."""

    process: Process
    port: int
    version: str

    def cpu(self) -> float:
        """Return the broker's CPU seconds so far."""
        return self.process.cpu()

    def url(self) -> str:
        """Return the broker's address."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"


def server_binary(kind: str) -> Path:
    """Return the program of ``redis`` or ``valkey``; raises BenchError when it is not installed."""
    try:
        found = shutil.which("redis-server") if kind == "redis" else str(valkey_binary())
    except StoreUnavailableError as error:
        raise BenchError(str(error)) from error
    if found is None:
        raise BenchError(
            "no redis-server on the path; install Redis 7, or ask for valkey "
            "(--server valkey, or server in a profile)"
        )
    return Path(found)


@contextlib.contextmanager
def redis_server(kind: str = "redis") -> Iterator[RedisServer]:
    """Run a server of ``kind``; raises BenchError when it is not installed or does not start.

    Persistence is off and memory unlimited, so a run measures neither the disk nor eviction.
    """
    try:
        server = EmbeddedServer(binary=server_binary(kind)).start()
    except StoreUnavailableError as error:
        raise BenchError(str(error)) from error
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        client = redis.Redis(port=server.port)
        stack.callback(client.close)
        info = client.info("server")
        version = info.get("valkey_version") or info["redis_version"]
        yield RedisServer(server.pid, server.port, f"{kind} {version}", client)


def _rabbitmq_binary() -> str:
    # Debian's wrapper in sbin changes to the rabbitmq user and drops the environment; the script
    # behind it runs as whoever calls it, which is what a throw-away broker wants.
    for place in _RABBITMQ_PLACES:
        script = Path(place) / "rabbitmq-server"
        if script.exists():
            return str(script)
    raise BenchError("no RabbitMQ server found; install rabbitmq-server or leave that rival out")


@contextlib.contextmanager
def rabbitmq_server() -> Iterator[RabbitMQServer]:
    """Run a broker with its own port mapper; raises BenchError when it is not installed."""
    script, epmd = _rabbitmq_binary(), shutil.which("epmd")
    if epmd is None:
        raise BenchError("RabbitMQ needs epmd (part of Erlang) on the path")
    port, distribution, mapper = free_port(), free_port(), free_port()
    with tempfile.TemporaryDirectory(
        prefix="bench-rabbitmq-", ignore_cleanup_errors=True
    ) as folder:
        env = {
            "HOME": folder,
            "ERL_EPMD_PORT": str(mapper),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"bench{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            # Erlang's threads spin while they wait, which on few cores is taken from the worker.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+sbwt none",
        }
        # Started here and in the foreground: otherwise the broker leaves a daemon behind.
        with (
            Process("epmd", [epmd, "-port", str(mapper), "-address", "127.0.0.1"], env),
            Process("rabbitmq", [script], env) as process,
        ):

            def ready() -> bool:
                process.check()
                return "completed with" in process.output()

            until(ready, "RabbitMQ to start", 60, pause=0.2)
            yield RabbitMQServer(process, port, _rabbitmq_version(process.output()))


def _rabbitmq_version(banner: str) -> str:
    for line in banner.splitlines():
        words = line.split()
        if "RabbitMQ" in words and words[-1][:1].isdigit():
            return f"rabbitmq {words[-1]}"
    return f"rabbitmq (version unknown, {os.uname().machine})"
