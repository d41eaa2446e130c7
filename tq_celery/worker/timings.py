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
        ended, moved = self._ended, store_time(1.0) - 1000.0
        by_queue: dict[str, tuple[list[float], list[float], list[float]]] = {}
        while ended:
            delivery, started, finished = ended.popleft()
            if not started:
                continue
            queue = delivery.token.queue
            found = by_queue.get(queue)
            if found is None:
                found = by_queue[queue] = ([], [], [])
            waits, runs, latencies = found
            runs.append(finished - started)
            if delivery.since:
                submitted = (delivery.since - moved) / 1000.0
                waits.append(started - submitted)
                latencies.append(finished - submitted)
        for queue, (waits, runs, latencies) in by_queue.items():
            timings = self._queues.get(queue)
            if timings is None:
                timings = self._queues[queue] = QueueTimings()
            timings.wait.add_all(waits)
            timings.execution.add_all(runs)
            timings.latency.add_all(latencies)

    def queues(self) -> Mapping[str, QueueTimings]:
        """Return the histograms by queue."""
        return dict(self._queues)
