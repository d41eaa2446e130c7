"""Revocations that reached this worker as a broadcast, on their way to the store.

A sender that has no :class:`~tq_celery.app.TQ`, such as a monitor of its own, tells the workers
only. Each of them writes what it hears to the store, and tries again until the store has it. That
has a thread and a connection of its own: after the mark comes a search, which may look at all that
waits, and the lease and the outcomes of the tasks that run cannot wait for that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from time import monotonic, sleep
from typing import TypeVar

from tq_celery.errors import StoreError
from tq_celery.logs import Log
from tq_celery.settings import Settings
from tq_celery.store.contract import MAX_BATCH, StoppingStore
from tq_celery.store.stopping import RedisStopping
from tq_celery.store.stopping_contract import MARK_EXPIRES, MAX_MARKS
from tq_celery.worker.green import start_native

__all__ = ["Revocations"]

log = Log("tq_celery.worker")

#: Seconds before what the store did not take is written again.
PAUSE = 1.0

T = TypeVar("T")


class Revocations:
    """Filled by Celery's thread of control; adding never blocks. The I/O thread begins the writing.

    While the store is away at most :data:`MAX_MARKS` are kept. ``expires`` is how long the store
    shall remember, ms. ``wake`` is called after each addition.
    """

    def __init__(
        self, expires: int = MARK_EXPIRES, wake: Callable[[], None] = lambda: None
    ) -> None:
        self._expires = expires
        self._wake = wake
        self._ids: deque[str] = deque(maxlen=MAX_MARKS)
        self._stamps: deque[tuple[str, str]] = deque(maxlen=MAX_MARKS)
        self._writing = False
        self._not_before = 0.0
        self._complained = False

    def add(self, ids: Iterable[str]) -> None:
        """Take in task ids to write."""
        self._ids.extend(ids)
        self._wake()

    def add_stamps(self, stamps: Mapping[str, Sequence[str]]) -> None:
        """Take in stamps to write."""
        self._stamps.extend((header, value) for header in stamps for value in stamps[header])
        self._wake()

    def begin(self, settings: Settings) -> None:
        """Begin to write what was taken in, unless that goes on already; does not wait for it."""
        if self._writing or not (self._ids or self._stamps) or monotonic() < self._not_before:
            return
        self._writing = True
        try:
            start_native(lambda: self._run(settings))
        except BaseException:
            self._writing = False
            raise

    def finish(self, settings: Settings, seconds: float) -> None:
        """Write what is left, and wait for that up to ``seconds``. The other workers write it too.

        The marks come first, so what is given up is only the search for what waits.
        """
        end = monotonic() + seconds
        self._not_before = 0.0
        while (self._writing or self._ids or self._stamps) and monotonic() < end:
            self.begin(settings)
            sleep(0.01)

    def _run(self, settings: Settings) -> None:
        try:
            store = RedisStopping.open_stopping(settings)
            with closing(store.client):
                self.write(store)
            self._complained = False
        except Exception as error:
            self._not_before = monotonic() + PAUSE
            if not self._complained:  # once while the store is away
                known = isinstance(error, StoreError)
                log.warning(
                    "revocations are not written yet",
                    error=error,
                    exc_info=None if known else error,
                )
            self._complained = True
        finally:
            self._writing = False

    def write(self, store: StoppingStore) -> None:
        """Write what was taken in; what the store did not take is kept. Raises StoreError."""
        while self._ids:
            ids = _take(self._ids)
            with _kept(self._ids, ids):
                store.revoke(ids, expires=self._expires)
        while self._stamps:
            pairs = _take(self._stamps)
            stamps: dict[str, list[str]] = {}
            for header, value in pairs:
                stamps.setdefault(header, []).append(value)
            with _kept(self._stamps, pairs):
                store.revoke_stamped(stamps, expires=self._expires)


def _take(queue: deque[T]) -> list[T]:
    return [queue.popleft() for _ in range(min(len(queue), MAX_BATCH))]


@contextmanager
def _kept(queue: deque[T], items: list[T]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        queue.extendleft(reversed(items))
        raise
