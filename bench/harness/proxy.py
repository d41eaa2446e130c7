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
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Literal

__all__ = ["Direction", "FaultProxy"]

#: ``up`` is from clients to the server, ``down`` from the server to its clients.
Direction = Literal["up", "down"]

_CHUNK = 65_536
#: Closing with a linger of zero seconds sends a reset instead of an orderly end.
_RESET = struct.pack("ii", 1, 0)


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
        #: Connections that get no answer any more.
        self.swallowed = 0
        self._cut = False
        self._words: tuple[bytes, ...] = ()
        self._gates: dict[Direction, asyncio.Event] = {}
        self._writers: set[asyncio.StreamWriter] = set()
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
        for direction in ("up", "down"):
            gate = asyncio.Event()
            gate.set()
            self._gates[direction] = gate
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

    def cut(self) -> None:
        """Reset every connection and refuse new ones until :meth:`heal`."""

        async def step() -> None:
            self._cut = True
            self._reset_all()

        self._do(step())

    def stall(self, *directions: Direction) -> None:
        """Hold back what is sent in ``directions`` (both when none is named)."""

        async def step() -> None:
            for direction in directions or ("up", "down"):
                self._gates[direction].clear()

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
            self._words = ()
            for gate in self._gates.values():
                gate.set()

        self._do(step())

    @property
    def connections(self) -> int:
        """Connections that clients hold open through the proxy now."""
        return len(self._writers) // 2

    # -- traffic -------------------------------------------------------------------------------

    def _reset_all(self) -> None:
        for writer in list(self._writers):
            self._reset(writer)

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
        pair = {writer, far_writer}
        self._writers |= pair
        silent = asyncio.Event()
        try:
            await asyncio.gather(
                self._pump("up", reader, far_writer, silent),
                self._pump("down", far_reader, writer, silent),
            )
        except (OSError, asyncio.CancelledError):
            pass  # cancelled by the end of the proxy, which waits for this
        finally:
            self._writers -= pair
            for each in pair:
                each.transport.abort()

    async def _pump(
        self,
        direction: Direction,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        silent: asyncio.Event,
    ) -> None:
        while chunk := await source.read(_CHUNK):
            if self.delay:
                await asyncio.sleep(self.delay)
            await self._gates[direction].wait()
            if direction == "up" and self._words and not silent.is_set():
                # before the request is passed on, or its answer could be faster
                if all(word in chunk for word in self._words):
                    silent.set()
                    self.swallowed += 1
            elif direction == "down" and silent.is_set():
                continue
            self.forwarded[direction] += len(chunk)
            sink.write(chunk)
            await sink.drain()
        # The end of one side is passed on at once: half-open connections are not modelled.
        sink.close()
