"""Revocations that reached this worker as a broadcast, on their way to the store.

A sender that has no :class:`~tq_celery.app.TQ`, such as a monitor of its own, tells the workers
only. Each of them writes what it hears to the store, and tries again until the store has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from tq_celery.store.contract import MAX_BATCH, StoppingStore
from tq_celery.store.stopping_contract import MARK_EXPIRES, MAX_MARKS

__all__ = ["Revocations"]

T = TypeVar("T")


class Revocations:
    """Filled by Celery's thread of control and emptied by the I/O thread; adding never blocks.

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

    def add(self, ids: Iterable[str]) -> None:
        """Take in task ids to write."""
        self._ids.extend(ids)
        self._wake()

    def add_stamps(self, stamps: Mapping[str, Sequence[str]]) -> None:
        """Take in stamps to write."""
        self._stamps.extend((header, value) for header in stamps for value in stamps[header])
        self._wake()

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
