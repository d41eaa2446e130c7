"""What the parts of :class:`~tq_celery.store.redis_store.RedisStore` share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import redis

from tq_celery.settings import Settings
from tq_celery.store.client import close_idle
from tq_celery.store.contract import MAX_BATCH
from tq_celery.store.keys import Keys
from tq_celery.store.scripts import SCRIPTS, call, translate

__all__ = ["LONGEST_BLOCK", "RedisPart", "chunks"]

#: Longest blocking read in ms; the blocking connection's socket timeout is above it.
LONGEST_BLOCK = 30_000

Item = TypeVar("Item")


def chunks(items: Sequence[Item], size: int = MAX_BATCH) -> Iterator[Sequence[Item]]:
    """Yield ``items`` in runs of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


class RedisPart:
    """A client, the namespace's keys and the settings that scripts take as arguments.

    ``client`` serves short calls and may be shared by threads; ``blocking`` serves blocking reads
    and belongs to one thread.
    """

    def __init__(
        self,
        client: redis.Redis,
        namespace: str,
        *,
        settings: Settings,
        blocking: redis.Redis | None = None,
    ) -> None:
        self.client = client
        self.blocking = blocking or client
        self.keys = Keys(namespace)
        self.settings = settings
        self._prefix = self.keys.prefix
        done_ms = int(settings.done_memory * 1000)
        self._limits = [settings.results_maxlen or 0, done_ms, settings.done_max]
        self._dead_maxlen = settings.dead_maxlen or 0

    def _call(self, script: str, *args: Any) -> Any:
        return call(self.client, SCRIPTS[script], self._prefix, args)

    def _fenced_call(self, script: str, epoch: int, *args: Any) -> Any:
        return call(self.client, SCRIPTS[script], self._prefix, (epoch, *args), epoch)

    def _wrap(self, operation: str, error: Exception) -> Exception:
        """Return our error for one raised by a plain command."""
        close_idle(self.client, error)
        return translate(SCRIPTS[operation], error)
