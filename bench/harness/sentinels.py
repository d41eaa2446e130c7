"""A primary, two replicas and three Sentinels, as processes on loopback.

The primary is reached through a :class:`~bench.harness.proxy.FaultProxy`, by everybody: Sentinel
announces that address, clients find it by discovery, and a replica that was pointed elsewhere
would be pointed back. So what is cut off is told apart by the proxy. Replicas are reached directly:
the one that is promoted has no proxy, and what was injected ends with the old primary.

Three things look like a fault and are none, which is why the state at the moment of death is
looked at and not assumed: a stopped primary (SIGSTOP) leaves what it has sent in the sockets of its
replicas; a primary that is asked to end (SHUTDOWN) waits for them; and Sentinels repair links that
lead to another address than the one they know.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import redis

from bench.harness.errors import BenchError
from bench.harness.process import Process, until
from bench.harness.proxy import FaultProxy, Peer
from bench.harness.servers import server_binary
from tq_celery.embedded import EmbeddedServer, free_port
from tq_celery.errors import StoreUnavailableError

__all__ = ["MASTER", "Death", "Link", "SentinelCluster"]

#: The name under which clients ask for the primary.
MASTER = "mymaster"
#: Of three Sentinels, how many have to agree that the primary is gone.
SENTINELS, QUORUM = 3, 2
#: Seconds for servers to start and find each other, and for one to be promoted, on a machine that
#: has other work.
START, PROMOTION = 60.0, 90.0

#: The settings are those of ``deploy/docker/server/sentinel.conf``.
_SENTINEL = """\
bind 127.0.0.1
port {port}
dir "{folder}"
protected-mode no
daemonize no
sentinel monitor {master} 127.0.0.1 {primary} {quorum}
sentinel down-after-milliseconds {master} {down_after}
sentinel failover-timeout {master} 10000
sentinel parallel-syncs {master} 1
"""


class Link(NamedTuple):
    """A replica's side of its replication: whether it hears its primary, and how far it got."""

    up: bool
    offset: int


class Death(NamedTuple):
    """The state in which the primary died.

    ``at`` is the time in ms on the clock that all servers here share. Right before, the primary had
    written ``offset`` bytes for its replicas, and ``up`` says which of them heard it; ``reached``
    is how far each got, when nothing more came.
    """

    at: int
    offset: int
    up: tuple[bool, ...]
    reached: tuple[int, ...]

    @property
    def behind(self) -> int:
        """The bytes of replication that died with the primary, and that no replica has."""
        return max(0, self.offset - max(self.reached))


class SentinelCluster:
    """A context manager. ``down_after``: seconds of silence after which a Sentinel acts.

    ``config`` is for all three data servers; without more they persist nothing, so that what a
    failover keeps is what was replicated.
    """

    def __init__(
        self,
        kind: str = "redis",
        *,
        down_after: float = 2.0,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._binary = server_binary(kind)
        self._down_after = down_after
        self._config = {"repl-diskless-sync-delay": "0", **(config or {})}
        self._stack = contextlib.ExitStack()
        self.primary: EmbeddedServer
        self.replicas: list[EmbeddedServer] = []
        self.proxy: FaultProxy
        self._sentinels: list[int] = []
        self._clients: dict[int, Any] = {}
        self._stalled = False

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.primary = self._server(stack)
            self.proxy = stack.enter_context(FaultProxy(self.primary.port))
            for _ in range(2):
                replica = self._server(stack)
                self.client(replica).replicaof("127.0.0.1", self.proxy.port)
                self.replicas.append(replica)
            until(self._followed, "the replicas to follow", START)
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-sentinels-"))
            for _ in range(SENTINELS):
                self._sentinels.append(self._sentinel(stack, Path(folder)))
            until(self._agreed, "the Sentinels to know each other and the replicas", START)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    # -- members -------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where clients look for the primary."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self._sentinels)
        return f"sentinel://{hosts}/{MASTER}"

    @property
    def version(self) -> str:
        """Name and version of the servers."""
        info = self.client(self.replicas[0]).info("server")
        valkey = info.get("valkey_version")
        return f"valkey {valkey}" if valkey else f"redis {info['redis_version']}"

    def client(self, server: EmbeddedServer) -> Any:
        """Return a client of one data server that goes through no proxy."""
        return self._client(server.port)

    def _client(self, port: int) -> Any:
        if port not in self._clients:
            self._clients[port] = redis.Redis(port=port, socket_timeout=10)
        return self._clients[port]

    def _server(self, stack: contextlib.ExitStack) -> EmbeddedServer:
        server = EmbeddedServer(binary=self._binary, config=self._config)
        try:
            server.start()
        except StoreUnavailableError as error:
            raise BenchError(str(error)) from error
        stack.callback(server.stop)
        stack.callback(self.client(server).close)
        return server

    def _sentinel(self, stack: contextlib.ExitStack, folder: Path) -> int:
        port = free_port()
        own = folder / str(port)
        own.mkdir()
        file = own / "sentinel.conf"
        file.write_text(
            _SENTINEL.format(
                port=port, folder=own, master=MASTER, primary=self.proxy.port, quorum=QUORUM,
                down_after=round(self._down_after * 1000),
            )
        )  # fmt: skip
        stack.enter_context(Process("sentinel", [str(self._binary), str(file), "--sentinel"]))
        stack.callback(self._client(port).close)
        return port

    # -- what there is -------------------------------------------------------------------------

    def _replication(self, server: EmbeddedServer) -> dict[str, Any]:
        found: dict[str, Any] = self.client(server).info("replication")
        return found

    def links(self) -> tuple[Link, ...]:
        """Return the state of both replicas."""
        found = map(self._replication, self.replicas)
        return tuple(
            Link(each.get("master_link_status") == "up", int(each.get("slave_repl_offset", 0)))
            for each in found
        )

    def offset(self) -> int:
        """Return how many bytes the primary has written for its replicas."""
        return int(self._replication(self.primary)["master_repl_offset"])

    def _followed(self) -> bool:
        return all(link.up for link in self.links())

    def _agreed(self) -> bool:
        for port in self._sentinels:
            try:
                state = self._client(port).sentinel_master(MASTER)
            except redis.RedisError:
                return False
            known = (state["num-other-sentinels"], state["num-slaves"])
            if known != (SENTINELS - 1, len(self.replicas)):
                return False
        return True

    # -- faults --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _caught_up(self) -> Iterator[None]:
        """Hold all writes until the replicas have what was written, and for the block.

        What is destroyed later is then what was written after the fault, and not what was on its
        way to the replicas by chance.
        """
        client = self.client(self.primary)
        client.client_pause(round(START * 1000), all=False)
        try:
            offset = self.offset()
            until(
                lambda: min(link.offset for link in self.links()) >= offset,
                "the replicas to have everything", START / 2, pause=0.002,
            )  # fmt: skip
            yield
        finally:
            client.client_unpause()

    def cut_off(self, *peers: Peer) -> None:
        """Cut replicas, and maybe Sentinels, off from the primary; its clients notice nothing.

        Returns once both ends know of it. Up to the cut the replicas have everything, after it
        nothing.
        """
        with self._caught_up():
            self.proxy.cut(*peers)

        def shows() -> bool:
            none_left = not self._replication(self.primary)["connected_slaves"]
            return none_left and not any(link.up for link in self.links())

        until(shows, "the replicas to be cut off", START)

    def stall_replication(self) -> None:
        """Hold back all that is sent between primary and replicas; no end learns of it.

        Up to then they have everything, after it nothing.
        """
        with self._caught_up():
            self.proxy.stall(peers=["replica"])
        self._stalled = True

    def kill_primary(self) -> Death:
        """Kill the primary (SIGKILL) and return the state in which it died.

        Raises BenchError when the replicas are promoted already.
        """
        if any(self._replication(each)["role"] != "slave" for each in self.replicas):
            raise BenchError("a replica was promoted before the primary was killed")
        up, offset = tuple(link.up for link in self.links()), self.offset()
        at = time.time_ns() // 1_000_000
        os.kill(self.primary.pid, signal.SIGKILL)
        self.primary.halt()  # collects it

        def read() -> bool:
            # a replica knows that its link has ended when it has read all that had arrived
            return self._stalled or not any(link.up for link in self.links())

        until(read, "the replicas to have read what had arrived", START)
        return Death(at, offset, up, tuple(link.offset for link in self.links()))

    def rejoin(self, timeout: float = PROMOTION) -> None:
        """Heal, and wait until the Sentinels have made the old primary a replica that follows."""
        self.proxy.heal()

        def follows() -> bool:
            state = self._replication(self.primary)
            return (state["role"], state.get("master_link_status")) == ("slave", "up")

        until(follows, "the old primary to follow the new one", timeout)

    def promoted(self, timeout: float = PROMOTION) -> EmbeddedServer:
        """Wait until the Sentinels have promoted a replica which the other follows; return it."""
        found: list[EmbeddedServer] = []

        def done() -> bool:
            states = [(each, self._replication(each)) for each in self.replicas]
            found[:] = [each for each, state in states if state["role"] == "master"]
            return len(found) == 1 and any(
                state.get("master_port") == found[0].port and state["master_link_status"] == "up"
                for _, state in states
            )

        until(done, "a replica to be promoted and followed", timeout)
        return found[0]
