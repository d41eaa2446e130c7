"""How long the tasks that ended in this worker waited and ran."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from tq_celery.metrics.buckets import Buckets
from tq_celery.store.contract import Delivery

__all__ = ["QueueTimings", "Timings"]


class QueueTimings:
    """Histograms of one queue: until the start, from start to end, and both together."""

    __slots__ = ("execution", "latency", "wait")

    def __init__(self) -> None:
        self.wait, self.execution, self.latency = Buckets(), Buckets(), Buckets()


class Timings:
    """Gathers what ended; :meth:`note` in any thread, :meth:`take_in` in the I/O thread alone.

    A task that is acknowledged before it runs ends, for these, when it starts.
    """

    def __init__(self) -> None:
        self._ended: deque[tuple[Delivery, float, float]] = deque()
        self._queues: dict[str, QueueTimings] = {}

    def note(self, delivery: Delivery, started: float, finished: float) -> None:
        """Note the end of a delivery; monotonic seconds, ``started`` 0 when it never did."""
        self._ended.append((delivery, started, finished))

    def take_in(self, store_time: Callable[[float], float]) -> None:
        """Count what was noted; ``store_time`` turns monotonic seconds to ms of the store."""
        ended = self._ended
        while ended:
            delivery, started, finished = ended.popleft()
            if not started:
                continue
            timings = self._queues.get(delivery.token.queue)
            if timings is None:
                timings = self._queues[delivery.token.queue] = QueueTimings()
            execution = finished - started
            timings.execution.add(execution)
            if delivery.since:
                wait = (store_time(started) - delivery.since) / 1000
                timings.wait.add(wait)
                timings.latency.add(wait + execution)

    def queues(self) -> Mapping[str, QueueTimings]:
        """Return the histograms by queue."""
        return dict(self._queues)
