"""Dispatches and settlements as they happen, looked at every hundredth of a second."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import redis

from tq_celery.store.keys import Keys

__all__ = ["Beat", "Pulse", "between", "resumed", "standstill"]

#: Seconds between two looks, and for which an answer is waited.
EVERY, LONGEST = 0.01, 0.5


class Beat(NamedTuple):
    """What had been dispatched and settled when the look began, in monotonic seconds."""

    at: float
    dispatched: int
    settled: int


def resumed(beats: Sequence[Beat], end: float, what: str) -> float | None:
    """Return the seconds from ``end`` to the look that sees ``what`` grow; None when none does.

    The first look after the end is what later ones are compared with: a server that was restarted
    or flushed counts from another number than before.
    """
    after = [beat for beat in beats if beat.at >= end]
    for beat in after:
        if getattr(beat, what) > getattr(after[0], what):
            return beat.at - end
    return None


def standstill(beats: Sequence[Beat], end: float, until: float, what: str) -> float:
    """Return the longest time from ``end`` to ``until`` in which ``what`` did not grow.

    It may go on and stop once more: the slots of workers whose leases a server has forgotten are
    used until somebody looks.
    """
    longest, last, count = 0.0, end, None
    for beat in beats:
        if beat.at < end:
            continue
        now = getattr(beat, what)
        if count is not None and now > count:
            longest, last = max(longest, beat.at - last), beat.at
        count = now
        if beat.at > until and longest:
            break
    return longest


def between(beats: Sequence[Beat], begin: float, end: float, what: str) -> int:
    """Return by how much ``what`` grew from the first to the last look in the time given."""
    counts = [getattr(beat, what) for beat in beats if begin <= beat.at <= end]
    return counts[-1] - counts[0] if counts else 0


class Pulse:
    """Looks at the exec stream of one queue and at the results until the block is left."""

    def __init__(self, port: int, keys: Keys, queue: str = "celery") -> None:
        self._client: Any = redis.Redis(port=port, socket_timeout=LONGEST)
        self._exec, self._results = keys.of_queue("exec", queue), keys.name("results")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse")
        self.beats: list[Beat] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._over.wait(EVERY):
            at = time.monotonic()
            with contextlib.suppress(redis.RedisError):
                self.beats.append(Beat(at, self._added(self._exec), self._added(self._results)))

    def _added(self, stream: str) -> int:
        """Return the entries that a stream ever had; a stream that is not there had none."""
        try:
            return int(self._client.xinfo_stream(stream)["entries-added"])
        except redis.ResponseError as error:
            if "no such key" in str(error):
                return 0
            raise
