"""A TCP proxy that injects faults between clients and a server.

It runs in a thread of its own. What it does to traffic can be changed at any time:

==============  ==================================================================
``heal()``      forward both ways; the state at the start
``cut()``       reset every connection and refuse new ones
``stall(...)``  keep connections open, take new ones, and hold back what is sent in
                the named directions; :meth:`heal` then delivers what was held back
``swallow(..)`` whoever sends a request with all of the named words gets no answer on
                that connection any more; the request itself arrives
``delay``       seconds by which everything is late
==============  ==================================================================

Replicas and Sentinels reach a primary at the same address as clients do, so that nobody sees
through which proxy. They are told apart by what they send first: ``REPLCONF`` or ``PSYNC``, and the
name that a Sentinel gives its connection. ``cut("replica")`` and ``stall(..., peers=["replica"])``
do to the connections of those what the plain forms do to all.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

__all__ = ["Direction", "FaultProxy", "Peer"]

#: ``up`` is from clients to the server, ``down`` from the server to its clients.
Direction = Literal["up", "down"]
#: Who may be told apart from clients.
Peer = Literal["replica", "sentinel"]

_BOTH: tuple[Direction, ...] = ("up", "down")
_CHUNK = 65_536
#: Closing with a linger of zero seconds sends a reset instead of an orderly end.
_RESET = struct.pack("ii", 1, 0)
#: What only they send, as any client writes a request. It is among the first things on a
#: connection, after a PING and where there is a password AUTH.
_SIGNS: dict[Peer, re.Pattern[bytes]] = {
    "replica": re.compile(
        rb"\*\d+\r\n\$\d+\r\n(?:REPLCONF|PSYNC|SYNC)\r\n", re.IGNORECASE
    ),
    "sentinel": re.compile(rb"\r\nSETNAME\r\n\$\d+\r\nsentinel-", re.IGNORECASE),
}  # fmt: skip
#: Bytes from the start of a connection within which such a request is looked for.
_HANDSHAKE = 4_096


@dataclass(eq=False, slots=True)
class _Pair:
    """A client's connection and the one to the server that belongs to it."""

    near: asyncio.StreamWriter
    far: asyncio.StreamWriter
    #: What the client has turned out to be, and how much it has sent while that was looked for.
    peer: Peer | None = None
    looked: int = 0
    #: Set when the client gets no answer any more.
    silent: asyncio.Event = field(default_factory=asyncio.Event)

    def look(self, chunk: bytes) -> None:
        """Find out from what it sends what the client is."""
        if self.peer is None and self.looked < _HANDSHAKE:
            self.peer = next((peer for peer, sign in _SIGNS.items() if sign.search(chunk)), None)
            self.looked += len(chunk)


class FaultProxy:
    """Forwards ``127.0.0.1:port`` to ``host:target``; a context manager."""

    def __init__(self, target: int, host: str = "127.0.0.1", port: int = 0) -> None:
        self._target = (host, target)
        self.port = port
        #: Seconds by which every chunk is late.
        self.delay = 0.0
        #: Connections accepted, connections refused or reset, and bytes forwarded.
        self.accepted = 0
        self.refused = 0
        self.forwarded: dict[Direction, int] = {"up": 0, "down": 0}
        #: Connections refused or reset because of who had made them.
        self.refused_peers: Counter[Peer] = Counter()
        #: Connections that get no answer any more.
        self.swallowed = 0
        self._cut = False
        self._cut_peers: set[Peer] = set()
        self._words: tuple[bytes, ...] = ()
        self._gates: dict[Direction, asyncio.Event] = {}
        self._peer_gates: dict[tuple[Peer, Direction], asyncio.Event] = {}
        self._pairs: set[_Pair] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")

    # -- life ----------------------------------------------------------------------------------

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, step: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(step, self._loop).result(10)

    async def _listen(self) -> None:
        for direction in _BOTH:
            self._gates[direction] = asyncio.Event()
            self._peer_gates |= {(peer, direction): asyncio.Event() for peer in _SIGNS}
        self._open_gates()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        self._reset_all()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- faults --------------------------------------------------------------------------------

    def cut(self, *peers: Peer) -> None:
        """Reset every connection and refuse new ones until :meth:`heal`; or only of ``peers``.

        Until somebody has shown to be such a peer the connection is kept, and nothing of the
        request that shows it arrives.
        """

        async def step() -> None:
            if peers:
                self._cut_peers |= set(peers)
                for pair in [each for each in self._pairs if each.peer in peers]:
                    self._refuse(pair)
            else:
                self._cut = True
                self._reset_all()

        self._do(step())

    def stall(self, *directions: Direction, peers: Sequence[Peer] = ()) -> None:
        """Hold back what is sent in ``directions`` (both when none is named), by all or ``peers``.

        A connection that is silent stays open at both ends: neither of them learns of it.
        """

        async def step() -> None:
            for direction in directions or _BOTH:
                if not peers:
                    self._gates[direction].clear()
                for peer in peers:
                    self._peer_gates[peer, direction].clear()

        self._do(step())

    def swallow(self, *words: bytes) -> None:
        """Answer nothing more to a connection once it has sent all ``words`` in one request.

        What it sends still arrives, so the server does what its client never learns of. A
        connection stays without answers after :meth:`heal`. A request longer than 64 KiB may be
        seen in parts, and then not recognised.
        """

        async def step() -> None:
            self._words = words

        self._do(step())

    def heal(self) -> None:
        """Forward again, what was held back first."""

        async def step() -> None:
            self._cut = False
            self._cut_peers.clear()
            self._words = ()
            self._open_gates()

        self._do(step())

    def _open_gates(self) -> None:
        for gate in (*self._gates.values(), *self._peer_gates.values()):
            gate.set()

    @property
    def connections(self) -> int:
        """Connections that clients hold open through the proxy now."""
        return len(self._pairs)

    def of(self, peer: Peer) -> int:
        """Return how many of these belong to such peers."""
        return sum(pair.peer == peer for pair in list(self._pairs))

    # -- traffic -------------------------------------------------------------------------------

    def _reset_all(self) -> None:
        for pair in list(self._pairs):
            self._reset(pair.near)
            self._reset(pair.far)

    def _refuse(self, pair: _Pair) -> None:
        # it may have been refused already by what came from the other side
        if pair in self._pairs and pair.peer is not None:
            self._pairs.discard(pair)
            self.refused_peers[pair.peer] += 1
            self._reset(pair.near)
            self._reset(pair.far)

    @staticmethod
    def _reset(writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            self.refused += 1
            self._reset(writer)
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            self.refused += 1
            self._reset(writer)
            return
        self.accepted += 1
        pair = _Pair(writer, far_writer)
        self._pairs.add(pair)
        try:
            await asyncio.gather(
                self._pump("up", pair, reader, far_writer),
                self._pump("down", pair, far_reader, writer),
            )
        except (OSError, asyncio.CancelledError):
            pass  # cancelled by the end of the proxy, which waits for this
        finally:
            self._pairs.discard(pair)
            for each in (writer, far_writer):
                each.transport.abort()

    async def _pump(
        self,
        direction: Direction,
        pair: _Pair,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
    ) -> None:
        while chunk := await source.read(_CHUNK):
            if self.delay:
                await asyncio.sleep(self.delay)
            if direction == "up":
                pair.look(chunk)
            await self._gates[direction].wait()
            if pair.peer is not None:
                await self._peer_gates[pair.peer, direction].wait()
                if pair.peer in self._cut_peers:
                    self._refuse(pair)
                    return
            if direction == "up" and self._words and not pair.silent.is_set():
                # before the request is passed on, or its answer could be faster
                if all(word in chunk for word in self._words):
                    pair.silent.set()
                    self.swallowed += 1
            elif direction == "down" and pair.silent.is_set():
                continue
            self.forwarded[direction] += len(chunk)
            sink.write(chunk)
            await sink.drain()
        # The end of one side is passed on at once: half-open connections are not modelled.
        sink.close()
