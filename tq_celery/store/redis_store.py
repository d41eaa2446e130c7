"""The store on a Redis or Valkey server."""

from __future__ import annotations

from tq_celery.settings import Settings
from tq_celery.store.accounts import RedisAccounts
from tq_celery.store.base import LONGEST_BLOCK
from tq_celery.store.client import connect
from tq_celery.store.leader import RedisLeader
from tq_celery.store.operator import RedisOperator
from tq_celery.store.producer import RedisProducer
from tq_celery.store.stopping import RedisStopping
from tq_celery.store.worker import RedisWorker

__all__ = ["RedisStore"]


class RedisStore(
    RedisProducer, RedisLeader, RedisWorker, RedisOperator, RedisStopping, RedisAccounts
):
    """A namespace on a server; implements :class:`~tq_celery.store.contract.Store`.

    Every method is one script or one read. Server errors arrive as StoreError or
    StoreUnavailableError with the operation's name; a superseded epoch as FencedError.
    """

    @classmethod
    def open(cls, settings: Settings) -> RedisStore:
        """Connect to ``settings.url`` with one client for calls and one for blocking reads."""
        return cls(
            connect(settings.url, timeout=settings.publish_timeout),
            settings.namespace,
            settings=settings,
            blocking=connect(
                settings.url,
                timeout=settings.publish_timeout,
                blocking=LONGEST_BLOCK / 1000,
            ),
        )

    def close(self) -> None:
        """Close both clients' connections."""
        self.client.close()
        self.blocking.close()
