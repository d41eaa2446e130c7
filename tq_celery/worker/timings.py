"""How long the tasks that ended in this worker waited and ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tq_celery.metrics.buckets import Buckets

if TYPE_CHECKING:
    from tq_celery.worker.deliveries import Ended

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
    """Counts what ended; of the I/O thread, but for :meth:`queues`.

    A task that is acknowledged before it runs ends, for these, when it starts.
    """

    def __init__(self) -> None:
        #: What the I/O thread took from the outbox since the last count.
        self.ended: list[Ended] = []
        self._queues: dict[str, QueueTimings] = {}
        self._counted = 0.0

    def count(self, now: float, store_time: Callable[[float], float]) -> None:
        """Count what ended when it is many or some time has passed: together it costs half.

        ``now`` is monotonic seconds, which ``store_time`` turns to ms of the store.
        """
        ended = self.ended
        if len(ended) < MANY and (not ended or now - self._counted < EVERY):
            return
        self._counted, self.ended = now, []
        moved = store_time(1.0) - 1000.0
        by_queue: dict[str, list[tuple[float, float, int]]] = {}
        for token, _, _, started, finished, since in ended:
            if started:
                of_queue = by_queue.get(token.queue)
                if of_queue is None:
                    of_queue = by_queue[token.queue] = []
                of_queue.append((started, finished, since))
        for queue, ends in by_queue.items():
            timings = self._queues.get(queue)
            if timings is None:
                timings = self._queues[queue] = QueueTimings()
            known = [
                (started, finished, (since - moved) / 1000.0)
                for started, finished, since in ends if since
            ]  # fmt: skip
            timings.wait.add_all([started - submitted for started, _, submitted in known])
            timings.execution.add_all([finished - started for started, finished, _ in ends])
            timings.latency.add_all([finished - submitted for _, finished, submitted in known])

    def queues(self) -> Mapping[str, QueueTimings]:
        """Return the histograms by queue; of any thread."""
        return dict(self._queues)
