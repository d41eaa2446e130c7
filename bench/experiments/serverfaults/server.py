"""The server that everything is done to: kept on disk as asked, stopped and brought back."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from bench.harness.clocks import Clock
from bench.harness.errors import BenchError
from bench.harness.servers import server_binary
from tq_celery.embedded import EmbeddedServer

__all__ = ["FaultServer"]

#: A server that loads looks at its clients after so many bytes, and says that it is loading.
_TELLS = {"loading-process-events-interval-bytes": "1024"}


class FaultServer(EmbeddedServer):
    """The installed ``redis-server`` or the embedded Valkey; a context manager.

    ``appendfsync`` is that of the append-only file, ``None`` keeps nothing at all. The server lives
    by ``clock`` when one is given.
    """

    def __init__(self, kind: str, appendfsync: str | None = None, clock: Clock | None = None):
        config = {**_TELLS, **({"appendfsync": appendfsync} if appendfsync else {})}
        super().__init__(
            appendonly=appendfsync is not None, config=config, binary=server_binary(kind)
        )
        self.kind, self.clock = kind, clock
        self.client: Any = None

    def __enter__(self) -> Self:
        with self.clock.used() if self.clock else contextlib.nullcontext():
            self.start()
        self.client = redis.Redis(port=self.port)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self.stop()

    @property
    def version(self) -> str:
        """Name and version of the server."""
        info = self.client.info("server")
        return f"{self.kind} {info.get('valkey_version') or info['redis_version']}"

    def kill(self) -> None:
        """Kill the server (SIGKILL); :meth:`start` brings it back with what was on disk."""
        os.kill(self.pid, signal.SIGKILL)
        self._reap()

    def shut_down(self) -> None:
        """SHUTDOWN: an append-only file is complete then, and nothing else is written."""
        with contextlib.suppress(redis.ConnectionError):
            self.client.shutdown(nosave=True)
        self._reap()

    def load_slowly(self, delay: int) -> None:
        """Make the next :meth:`start` wait ``delay`` microseconds at each key that it loads."""
        self._config |= {"key-load-delay": str(delay)}

    @property
    def file(self) -> Path:
        """The append-only file that is being written."""
        found = list(self.data_dir.glob("appendonlydir/*.incr.aof"))
        if len(found) != 1:
            raise BenchError(f"expected one append-only file to be written, found {found}")
        return found[0]
