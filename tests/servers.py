"""Real servers for the tests: Valkey from pip, Debian's Redis and RabbitMQ.

Each is a process of its own on loopback, with its own directory and ports, that can be stopped,
killed, frozen and restarted. A server that is not installed says so with :class:`Unavailable`,
which the fixtures turn into a skip with that reason.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import redis

from tq_celery.embedded import EmbeddedServer, free_port, valkey_binary
from tq_celery.errors import StoreUnavailableError


class Unavailable(Exception):
    """The server cannot run here; the text says what is missing."""


class _Faults:
    """What the tests do to a server process, by its pid."""

    @property
    def pid(self) -> int:
        raise NotImplementedError

    def pause(self) -> None:
        """Freeze the process (SIGSTOP): it keeps its connections and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen process go on."""
        os.kill(self.pid, signal.SIGCONT)


class ValkeyServer(EmbeddedServer, _Faults):
    """The Valkey that pip installs; ``ValkeyServer(appendonly=True).start()``."""

    name = "valkey"

    def client(self) -> redis.Redis:
        """Return a plain client, bytes in and out, for looking at what the code under test did."""
        return redis.Redis(port=self.port, host="127.0.0.1", protocol=2)

    def kill(self) -> None:
        """Kill the process (SIGKILL); :meth:`start` brings it back with what was on disk."""
        assert self._process is not None
        self._process.kill()
        self._reap()

    @classmethod
    def find(cls) -> Path:
        """Return the program, or raise Unavailable."""
        try:
            return valkey_binary()
        except StoreUnavailableError as error:
            raise Unavailable(str(error)) from error


class RedisServer(ValkeyServer):
    """Debian's ``redis-server``, when it is installed."""

    name = "redis"

    def __init__(self, **options) -> None:
        super().__init__(binary=self.find(), **options)

    @classmethod
    def find(cls) -> Path:
        """Return the program, or raise Unavailable."""
        found = shutil.which("redis-server")
        if found is None:
            raise Unavailable(
                "redis-server is not installed (Debian: apt-get install redis-server)"
            )
        return Path(found)


class SentinelServer(EmbeddedServer):
    """A sentinel: a server whose first argument is a file that it may rewrite."""

    def __init__(self, *, binary: Path, config_file: Path, password: str = "") -> None:
        super().__init__(binary=binary, config={"requirepass": password} if password else None)
        for unknown in ("save", "appendonly"):
            del self._config[unknown]
        self._arguments = [str(config_file)]

    @classmethod
    def find(cls) -> Path:
        """Return the program, or raise Unavailable."""
        found = RedisServer.find().with_name("redis-sentinel")
        if not found.exists():
            raise Unavailable(
                "redis-sentinel is not installed (Debian: apt-get install redis-sentinel)"
            )
        return found


class RabbitServer(_Faults):
    """One RabbitMQ node with its own name, ports, cookie and port mapper, all on loopback."""

    name = "rabbitmq"
    #: Debian's scripts behind the wrapper that changes to the user ``rabbitmq``.
    SCRIPTS = Path("/usr/lib/rabbitmq/bin")

    def __init__(self) -> None:
        if not (self.SCRIPTS / "rabbitmq-server").exists() or shutil.which("epmd") is None:
            raise Unavailable(
                "rabbitmq-server is not installed (Debian: apt-get install rabbitmq-server)"
            )
        self.port = free_port()
        self._mapper_port = free_port()
        self._distribution_port = free_port()
        self._directory = Path(tempfile.mkdtemp(prefix="tq-rabbit-"))
        self._mapper: subprocess.Popen[bytes] | None = None
        self._node: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Broker URL of the default virtual host."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    @property
    def pid(self) -> int:
        """Process id of the node; 0 when it is not running."""
        return self._node.pid if self._node is not None else 0

    @property
    def _environment(self) -> dict[str, str]:
        base = self._directory
        return {
            **os.environ,
            "HOME": str(base),
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"tq{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_MNESIA_BASE": str(base / "mnesia"),
            "RABBITMQ_LOG_BASE": str(base / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(base / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(base / "env.conf"),
            "RABBITMQ_CONFIG_FILE": str(base / "rabbitmq"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(base / "generated"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none"
            ),
        }

    def start(self) -> Self:
        """Start the port mapper and the node, and wait for the node's first AMQP frame."""
        for name in ("mnesia", "log", "generated"):
            (self._directory / name).mkdir(parents=True, exist_ok=True)
        (self._directory / "plugins").write_text("[].\n")
        for name in ("env.conf", "rabbitmq.conf"):
            (self._directory / name).touch()
        log = self._directory / "node.log"
        with log.open("ab") as output:
            if self._mapper is None:
                self._mapper = subprocess.Popen(
                    ["epmd", "-port", str(self._mapper_port), "-address", "127.0.0.1"],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=self._environment,
                )
            self._node = subprocess.Popen(
                [str(self.SCRIPTS / "rabbitmq-server")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                start_new_session=True,
            )
        give_up = time.monotonic() + 90
        while not self._answers():
            if self._node.poll() is not None or time.monotonic() > give_up:
                tail = log.read_text("utf-8", "replace")[-2000:]
                self.stop()
                raise RuntimeError(f"the RabbitMQ node did not start:\n{tail}")
            time.sleep(0.1)
        return self

    def stop(self) -> None:
        """End node and port mapper, and remove their directory."""
        self._end_node(signal.SIGTERM)
        if self._mapper is not None:
            self._mapper.kill()
            self._mapper.wait()
            self._mapper = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def kill(self) -> None:
        """Kill the node (SIGKILL); :meth:`start` brings it back with its durable queues."""
        self._end_node(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the node and start it again on the same port."""
        self._end_node(signal.SIGTERM)
        self.start()

    def control(self, *command: str) -> str:
        """Run ``rabbitmqctl`` on the node, such as ``control("close_all_connections", "test")``."""
        done = subprocess.run(
            [str(self.SCRIPTS / "rabbitmqctl"), "--quiet", *command],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout

    def _end_node(self, kind: signal.Signals) -> None:
        if self._node is None:
            return
        if self._node.poll() is None:
            # The start script may stand before the virtual machine: its whole session is ours.
            os.killpg(self._node.pid, kind)
            try:
                self._node.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(self._node.pid, signal.SIGKILL)
        self._node.wait()
        self._node = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2.0) as conversation:
                conversation.sendall(b"AMQP\x00\x00\x09\x01")
                return conversation.recv(8).startswith(b"\x01")
        except OSError:
            return False
