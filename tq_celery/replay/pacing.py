"""Open-loop submission: tasks leave when the trace says so, however far behind the workers are.

A producer that waits for its consumers hides the queue it should measure. This one never waits;
when it cannot keep up itself, the lag of every submission behind its time is recorded.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tq_celery.workloads.work import Work

__all__ = ["Producer", "Submitted"]


class Submitted(NamedTuple):
    """One task that was handed to Celery: ``at`` is the wall clock just before the call.

    ``lag`` is how late that was, in seconds behind the schedule.
    """

    work: Work
    at: float
    lag: float


class Producer(threading.Thread):
    """Calls ``send`` for each task at its time; what it submitted is taken with :meth:`taken`."""

    def __init__(self, works: Iterable[Work], send: Callable[[Work], object]) -> None:
        super().__init__(name="replay-producer", daemon=True)
        self._works = works
        self._send = send
        self._out: deque[Submitted] = deque()
        self._halt = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Submit everything; an exception ends it and is kept in :attr:`error`."""
        try:
            self._submit_all()
        except Exception as error:  # noqa: BLE001 - handed to the engine, which raises it
            self.error = error

    def _submit_all(self) -> None:
        origin = time.monotonic()
        for work in self._works:
            ahead = origin + work.at - time.monotonic()
            if ahead > 0 and self._halt.wait(ahead):
                return
            if self._halt.is_set():
                return
            lag = max(0.0, time.monotonic() - origin - work.at)
            at = time.time()
            # Known before it is sent, so that its start is never seen first.
            self._out.append(Submitted(work, at, lag))
            self._send(work)

    def taken(self) -> list[Submitted]:
        """Return what was submitted since the last call."""
        return [self._out.popleft() for _ in range(len(self._out))]

    def halt(self) -> None:
        """Stop submitting and wait for the call that is under way."""
        self._halt.set()
        if self.is_alive():
            self.join(10.0)
