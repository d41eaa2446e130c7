"""The producers' connections of one process, and one total deadline for each submission.

A producer is taken from a free list and put back, so each holds one connection that one caller
uses at a time: threads and greenlets share nothing, and there are never more connections than
submissions at once. A child process starts with an empty list and leaves its parent's sockets
alone.

Submitting is idempotent by key, so it is repeated blindly inside the deadline; how often a reply
was lost makes no difference (redis/redis-py #3554).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tq_celery.errors import StoreUnavailableError
from tq_celery.settings import Settings
from tq_celery.store.client import connect
from tq_celery.store.contract import Limits, ProducerStore, Receipt, Submission
from tq_celery.store.producer import RedisProducer

__all__ = ["Producers"]

#: One try may wait for a lost reply, a new connection and a reply: three waits fill the deadline.
_WAITS = 3
#: Seconds before the first repeat, and the longest pause between two.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5

Reply = TypeVar("Reply")


class _OneConnection(redis.Redis):
    """A client whose commands use one connection directly: no pool, no locks, no repeats."""

    def attach(self) -> _OneConnection:
        """Take a connection from the pool for good; it connects with the first command."""
        self._own: Any = self.connection_pool.make_connection()
        return self

    def execute_command(self, *args: Any, **options: Any) -> Any:
        own = self._own
        try:
            own.send_command(*args)
            return own.read_response()
        except (RedisConnectionError, redis.TimeoutError, OSError):
            own.disconnect()
            raise

    def close(self) -> None:
        self._own.disconnect()
        super().close()


class _Closable(ProducerStore, Protocol):
    client: redis.Redis


def _open(settings: Settings) -> _Closable:
    client = connect(settings.url, timeout=settings.publish_timeout / _WAITS)
    own = _OneConnection(connection_pool=client.connection_pool).attach()
    return RedisProducer(own, settings.namespace, settings=settings)


class Producers:
    """A :class:`ProducerStore` for any number of threads, greenlets and forked processes.

    Raises StoreUnavailableError when the deadline (``publish_timeout`` of the settings) has passed.
    """

    def __init__(
        self, settings: Settings, open_producer: Callable[[Settings], Any] = _open
    ) -> None:
        self._settings = settings
        self._open = open_producer
        self._pid = os.getpid()
        self._free: deque[Any] = deque()
        #: Milliseconds by which the store's clock is ahead of this machine's, as last seen.
        self.clock_offset = 0

    def submit(self, submission: Submission, limits: Limits, *, once: bool = False) -> Receipt:
        """Submit one task; ``once`` gives up after the first failure of the connection."""
        receipt = self._run(lambda store: store.submit(submission, limits), once)
        self.clock_offset = receipt.at - int(time.time() * 1000)
        return receipt

    def submit_many(
        self, submissions: Sequence[Submission], limits: Limits
    ) -> list[Receipt | Exception]:
        """Submit a batch in one round trip; see :class:`ProducerStore`."""
        return self._run(lambda store: store.submit_many(submissions, limits), False)

    def close(self) -> None:
        """Close the free connections; the next submission opens a new one."""
        self._of_this_process()
        while self._free:
            self._free.pop().client.close()

    def _of_this_process(self) -> None:
        if self._pid != os.getpid():
            self._free, self._pid = deque(), os.getpid()

    def _run(self, step: Callable[[Any], Reply], once: bool) -> Reply:
        if self._pid != os.getpid():
            self._of_this_process()
        free = self._free
        started, pause = 0.0, _FIRST_PAUSE
        while True:
            try:
                store = free.pop()
            except IndexError:
                store = self._open(self._settings)
            if not started:
                started = time.monotonic()
            try:
                reply = step(store)
            except StoreUnavailableError:
                free.append(store)  # its connection is closed and opens again when it is needed
                # The next try may take two waits: a new connection, and its reply.
                left = self._settings.publish_timeout * (1 - 2 / _WAITS)
                if once or time.monotonic() - started + pause > left:
                    raise
            except BaseException:
                free.append(store)
                raise
            else:
                free.append(store)
                return reply
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
