"""How fetched deliveries get from the I/O thread into Celery's own thread of control.

With an event loop (prefork, threads and solo on an asynchronous broker) a descriptor wakes the
loop. Under gevent and eventlet there is no loop that we could join, so a greenlet waits for the
descriptor. The threads and prefork pools without a loop take deliveries from a thread of ours; the
solo pool runs tasks inside the call, so there it happens in the worker's own thread, between two
looks at the broker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from tq_celery.logs import Log
from tq_celery.worker import green
from tq_celery.worker.request import stopping
from tq_celery.worker.wakeup import Wakeup

__all__ = ["Handover", "handover_for"]

log = Log("tq_celery.worker")

#: Longest look at the broker of a solo worker without an event loop, seconds.
SLICE = 0.05
#: The same where only a shutdown is noticed in between.
IDLE_SLICE = 0.5
#: Longest wait for the last turn of a thread of ours, seconds.
LAST_TURN = 1.0


class Handover:
    """Calls ``pump`` in the right place whenever ``arrived`` is set. Base: the event loop."""

    def __init__(self, arrived: Wakeup, pump: Callable[[], None]) -> None:
        self.arrived = arrived
        self._pump = pump

    def start(self, consumer: Any) -> None:
        """The Consumer starts or starts again."""

    def register(self, hub: Any) -> None:
        """The event loop of this start is ready."""
        hub.add_reader(self.arrived.fileno(), self.turn)
        self.arrived.set()

    def stop(self) -> None:
        """No more calls from now on."""

    def turn(self, *args: Any) -> None:
        """Hand over what has arrived; an exception here would end the worker."""
        self.arrived.clear()
        try:
            self._pump()
        except Exception:
            log.exception("handing over deliveries failed")


class GreenHandover(Handover):
    """A greenlet that waits for the descriptor."""

    _end: Callable[[], None] | None = None

    def start(self, consumer: Any) -> None:
        if self._end is None:
            self._end = green.spawn(self._wait)
        _slice_waits(consumer.connection, IDLE_SLICE, lambda: None)
        self.arrived.set()

    def _wait(self) -> None:
        while True:
            green.wait_readable(self.arrived.fileno())
            self.turn()

    def stop(self) -> None:
        if self._end is not None:
            self._end()


class ThreadHandover(Handover):
    """A thread of ours, for pools that take tasks from any thread."""

    _thread: threading.Thread | None = None
    _stopped = False

    def start(self, consumer: Any) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._wait, name="tq-handover", daemon=True)
            self._thread.start()
        _slice_waits(consumer.connection, IDLE_SLICE, lambda: None)
        self.arrived.set()

    def _wait(self) -> None:
        import select

        while not self._stopped:
            select.select([self.arrived.fileno()], [], [], 1.0)
            self.turn()

    def stop(self) -> None:
        self._stopped = True
        self.arrived.set()
        if self._thread is not None:
            self._thread.join(LAST_TURN)


class SlicedHandover(Handover):
    """Looks at the broker in short slices and hands over in between."""

    def start(self, consumer: Any) -> None:
        _slice_waits(consumer.connection, SLICE, self.turn)


def _slice_waits(connection: Any, longest: float, between: Callable[[], None]) -> None:
    """Make ``connection`` wait for its broker in slices of at most ``longest`` seconds.

    Celery's loop for pools without an event loop waits two seconds at a time, and notices only then
    that the worker shall stop.
    """
    drain = connection.drain_events

    def drain_events(timeout: float | None = None, **options: Any) -> Any:
        end = None if timeout is None else monotonic() + timeout
        while True:
            between()
            rest = longest if end is None else min(longest, end - monotonic())
            try:
                return drain(timeout=max(rest, 0.001), **options)
            except TimeoutError:
                if stopping() or (end is not None and monotonic() >= end):
                    raise

    connection.drain_events = drain_events


def handover_for(consumer: Any, arrived: Wakeup, pump: Callable[[], None]) -> Handover:
    """Return the way that suits the worker's pool and loop."""
    if consumer.hub is not None:
        return Handover(arrived, pump)
    if getattr(consumer.pool, "is_green", False):
        return GreenHandover(arrived, pump)
    if consumer.pool.__class__.__module__.endswith(".solo"):
        return SlicedHandover(arrived, pump)
    return ThreadHandover(arrived, pump)
