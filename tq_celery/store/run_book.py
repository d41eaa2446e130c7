"""What is remembered of runs of ``tq produce``, and the results by which their tasks are followed.

A run's entry outlives its tasks and the done memory: it is how the same command is recognised when
it is given again a week later. An entry is some 300 bytes, and is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from tq_celery.settings import Settings
from tq_celery.store.base import RedisPart
from tq_celery.store.client import connect
from tq_celery.store.inspect import reading

__all__ = ["RunBook"]


class RunBook(RedisPart):
    """The entries of one namespace; errors are StoreError and StoreUnavailableError."""

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """Connect with one client."""
        client = connect(settings.url, timeout=settings.publish_timeout)
        return cls(client, settings.namespace, settings=settings)

    def read(self, run: str) -> tuple[bytes, int]:
        """Return a run's entry, empty when there is none, and the server's clock in ms."""
        client: Any = self.client
        with reading("read_run"):
            entry = client.hget(self.keys.name("produced"), run)
            seconds, micros = client.time()
        return entry or b"", int(seconds) * 1000 + int(micros) // 1000

    def note(self, run: str, before: bytes, after: bytes) -> bool:
        """Replace the entry ``before`` by ``after``; False when it is another one by now."""
        return bool(self._call("note_run", run, before, after)[0] == b"written")

    def last_result(self) -> str:
        """Return the id of the newest result, ``0`` when there is none."""
        client: Any = self.client
        with reading("results"):
            newest = client.xrevrange(self.keys.name("results"), count=1)
        return str(newest[0][0].decode()) if newest else "0"

    def results_after(self, entry: str, count: int) -> list[tuple[str, Mapping[bytes, bytes]]]:
        """Return up to ``count`` results that followed the entry, oldest first."""
        client: Any = self.client
        with reading("results"):
            found = client.xrange(self.keys.name("results"), f"({entry}", count=count)
        return [(name.decode(), fields) for name, fields in found]

    def close(self) -> None:
        """Close the connection."""
        self.client.close()
