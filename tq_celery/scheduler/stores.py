"""The stores of a scheduler's loops: one each, so that no loop waits for another's connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tq_celery.settings import Settings
from tq_celery.store.accounts_contract import AccountsStore
from tq_celery.store.client import connect
from tq_celery.store.contract import LeaderStore
from tq_celery.store.redis_store import RedisStore

__all__ = ["SchedulerStore", "StoreFactory", "open_store"]

#: Seconds a reply may take before the connection is given up, but for the election's.
TIMEOUT = 5.0
#: Seconds a blocking read of a scheduler lasts at most.
BLOCKING = 1.0


class SchedulerStore(LeaderStore, AccountsStore, Protocol):
    """A leader's store that can also start an empty namespace."""

    def seed(self, settings: Settings) -> dict[str, str]:
        """Write the configuration an empty namespace lacks; returns what is stored."""

    def close(self) -> None:
        """Close the connections."""


#: Makes the store of one loop; the second argument bounds a reply, in seconds.
StoreFactory = Callable[[Settings, float], SchedulerStore]


def open_store(settings: Settings, timeout: float) -> SchedulerStore:
    """Open a store whose calls are sent once: every loop repeats its own rounds."""
    return RedisStore(
        connect(settings.url, timeout=timeout),
        settings.namespace,
        settings=settings,
        blocking=connect(settings.url, timeout=timeout, blocking=BLOCKING),
    )
