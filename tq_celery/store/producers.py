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
from dataclasses import dataclass
from typing import Any, TypeVar

import redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from tq_celery.errors import StoreUnavailableError
from tq_celery.settings import Settings
from tq_celery.store.client import connect
from tq_celery.store.contract import Limits, ProducerStore, Receipt, Submission
from tq_celery.store.producer import RedisProducer

__all__ = ["Line", "Producers"]

#: Part of the remaining time that one try may take, so that another on a new connection can follow.
_SHARE = 0.6
#: Below this part of the deadline a try gets all that is left.
_LAST_TRY = 0.25
#: Seconds before the first repeat, and the longest pause between two.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5

Reply = TypeVar("Reply")


class _OneConnection(redis.Redis):
    """A client whose commands use one connection directly: no pool, no locks, no repeats."""

    def attach(self) -> _OneConnection:
        """Take a connection from the pool for good; it connects with the first command."""
        self._own: Any = self.connection_pool.make_connection()
        return self

    def be_patient(self, seconds: float) -> None:
        """Give the next command ``seconds``, connecting included."""
        own = self._own
        if own._sock is not None:  # redis-py 8 says is_connected; 6.4 and 7 do not
            own._sock.settimeout(seconds)
        else:
            own.socket_connect_timeout = own.socket_timeout = seconds / 2

    def execute_command(self, *args: Any, **options: Any) -> Any:
        own = self._own
        try:
            own.send_command(*args)
            return own.read_response()
        except (RedisConnectionError, redis.TimeoutError, OSError):
            own.disconnect()
            raise

    def pipeline(self, transaction: bool = False, shard_hint: Any = None) -> Any:
        """Return a pipeline of plain commands on the one connection."""
        return _Pipeline(self._own)

    def close(self) -> None:
        self._own.disconnect()
        super().close()


class _Pipeline:
    """Commands sent together; errors of the server stand in their command's place."""

    def __init__(self, own: Any) -> None:
        self._own = own
        self._commands: list[tuple[Any, ...]] = []

    def execute_command(self, *args: Any) -> None:
        self._commands.append(args)

    def execute(self, raise_on_error: bool = False) -> list[Any]:
        own, replies = self._own, []
        try:
            own.send_packed_command(own.pack_commands(self._commands))
            for _ in self._commands:
                try:
                    replies.append(own.read_response())
                except ResponseError as error:
                    replies.append(error)
        except (RedisConnectionError, redis.TimeoutError, OSError):
            own.disconnect()
            raise
        return replies


@dataclass(frozen=True, slots=True)
class Line:
    """A producer store, how to bound its next call (seconds), and how to close it."""

    store: ProducerStore
    be_patient: Callable[[float], None] = lambda seconds: None
    close: Callable[[], None] = lambda: None


def _open(settings: Settings) -> Line:
    client = connect(settings.url, timeout=settings.publish_timeout)
    own = _OneConnection(connection_pool=client.connection_pool).attach()
    store = RedisProducer(own, settings.namespace, settings=settings)
    return Line(store, own.be_patient, own.close)


class Producers:
    """A :class:`ProducerStore` for any number of threads, greenlets and forked processes.

    Raises StoreUnavailableError when the deadline (``publish_timeout`` of the settings) has passed.
    """

    def __init__(self, settings: Settings, open_line: Callable[[Settings], Line] = _open) -> None:
        self._settings = settings
        self._open = open_line
        self._pid = os.getpid()
        self._free: deque[Line] = deque()
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
            self._free.pop().close()

    def _of_this_process(self) -> None:
        if self._pid != os.getpid():
            self._free, self._pid = deque(), os.getpid()

    def _run(self, step: Callable[[ProducerStore], Reply], once: bool) -> Reply:
        self._of_this_process()
        free = self._free
        total = self._settings.publish_timeout
        give_up, pause = time.monotonic() + total, _FIRST_PAUSE
        while True:
            try:
                line = free.pop()
            except IndexError:
                line = self._open(self._settings)
            left = give_up - time.monotonic()
            line.be_patient(left * _SHARE if left > total * _LAST_TRY else left)
            try:
                return step(line.store)
            except StoreUnavailableError:
                if once or time.monotonic() + 2 * pause > give_up:
                    raise
            finally:
                # After a failure its connection is closed, and opens again when it is needed.
                free.append(line)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
