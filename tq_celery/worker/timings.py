"""How long the tasks that ended in this worker waited and ran."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from tq_celery.metrics.buckets import Buckets
from tq_celery.store.contract import Delivery

__all__ = ["QueueTimings", "Timings"]

#: Ends that are counted at once, whenever the last were.
MANY = 256
#: Seconds after which fewer are.
EVERY = 0.1


class QueueTimings:
    """Histograms of one queue: until the start, from start to end, and both together."""

    __slots__ = ("execution", "latency", "wait")

    def __init__(self) -> None:
        self.wait, self.execution, self.latency = Buckets(), Buckets(), Buckets()


class Timings:
    """Gathers what ended; :meth:`note` in any thread, the rest in the I/O thread alone.

    A task that is acknowledged before it runs ends, for these, when it starts.
    """

    def __init__(self) -> None:
        self._ended: deque[tuple[str, int, float, float]] = deque()
        self._queues: dict[str, QueueTimings] = {}
        self._counted = 0.0

    def note(self, delivery: Delivery, started: float, finished: float) -> None:
        """Note the end of a delivery; monotonic seconds, ``started`` 0 when it never did."""
        if started:
            self._ended.append((delivery.token.queue, delivery.since, started, finished))

    def take_in(self, now: float, store_time: Callable[[float], float]) -> None:
        """Count what was noted when it is many or some time has passed: together it costs half.

        ``now`` is monotonic seconds, which ``store_time`` turns to ms of the store.
        """
        waiting = len(self._ended)
        if waiting < MANY and (not waiting or now - self._counted < EVERY):
            return
        self._counted = now
        ended, moved = self._ended, store_time(1.0) - 1000.0
        by_queue: dict[str, list[tuple[str, int, float, float]]] = {}
        for _ in range(waiting):
            each = ended.popleft()
            found = by_queue.get(each[0])
            if found is None:
                found = by_queue[each[0]] = []
            found.append(each)
        for queue, ends in by_queue.items():
            timings = self._queues.get(queue)
            if timings is None:
                timings = self._queues[queue] = QueueTimings()
            known = [
                ((since - moved) / 1000.0, start, end) for _, since, start, end in ends if since
            ]
            timings.wait.add_all([start - submitted for submitted, start, _ in known])
            timings.execution.add_all([end - start for _, _, start, end in ends])
            timings.latency.add_all([end - submitted for submitted, _, end in known])

    def queues(self) -> Mapping[str, QueueTimings]:
        """Return the histograms by queue; of any thread."""
        return dict(self._queues)
