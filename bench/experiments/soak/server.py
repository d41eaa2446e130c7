"""The soak's server: Redis with an append-only file, ended in every way and brought back."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from types import TracebackType
from typing import Any

import redis

from tq_celery.embedded import EmbeddedServer

__all__ = ["SoakServer"]


class SoakServer:
    """The installed ``redis-server``, or the embedded Valkey; ``appendfsync everysec``."""

    def __init__(self) -> None:
        found = shutil.which("redis-server")
        self._server = EmbeddedServer(appendonly=True, binary=Path(found) if found else None)
        self.client: Any = None

    def __enter__(self) -> SoakServer:
        self._server.start()
        self.client = redis.Redis(port=self._server.port)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        self._server.stop()

    @property
    def version(self) -> str:
        """Name and version of the server."""
        info = self.client.info("server")
        valkey = info.get("valkey_version")
        return f"valkey {valkey}" if valkey else f"redis {info['redis_version']}"

    def url(self, database: int) -> str:
        """Return the address of one of the server's databases."""
        return f"redis://127.0.0.1:{self._server.port}/{database}"

    def restart(self) -> None:
        """Shut the server down, which writes everything, and start it again."""
        self._server.restart()

    def kill(self, appendfsync: str) -> None:
        """Kill the server (SIGKILL) while it syncs as ``appendfsync`` says, and start it again."""
        self.client.config_set("appendfsync", appendfsync)
        os.kill(self._server.pid, signal.SIGKILL)
        self._server.restart()
