"""What the worker offers: places in its pool, and how far it reads ahead of them.

Little's law gives the read-ahead: as many tasks as the pool finishes in the time a delivery takes
from the scheduler to a slot. No-op tasks need dozens in flight per slot, a task of a second needs
none. A deep read-ahead would make an urgent task wait, so it is measured, never configured.

What is measured is how long slots waited for their next task (:class:`RoundTrip`): the read-ahead
is as small as it can be with hardly any of that.
"""

from __future__ import annotations

import math
from collections import deque
from itertools import islice
from typing import Any

from celery.worker import state

from tq_celery.worker.deliveries import DeliveryTable

__all__ = ["FinishRate", "RoundTrip", "Slots", "pool_size", "read_ahead"]

#: Longest round trip that is read ahead for, seconds: twice the 20 ms from a finished task to its
#: successor's start on busy cores, so that a worker held back by it grows out of it; below the
#: 50 ms after which what waits too deep is given back.
LONGEST = 0.04
#: Seconds over which waiting slots are added up.
LOOK = 0.25
#: Share of the slots' time: above the first it grows, below the second it shrinks.
MOST_IDLE, LEAST_IDLE = 0.02, 0.004
#: Factor by which the round trip grows and shrinks, and by one task at least.
STEP = 1.25
#: Tasks shorter than this, seconds of a slot, are always read ahead for the longest round trip:
#: they come in batches, and how long a slot waited for one says little.
BRISK = 0.002
#: Ends of tasks that are remembered: more slots than this never wait at once.
MOST_ENDS = 256
#: Most tasks of read-ahead per slot.
DEEPEST = 64
#: Seconds a worker is full of the broker's tasks before it offers a place all the same.
CROWDED = 1.0
#: Seconds over which the finish rate is averaged.
WINDOW = 0.1


class FinishRate:
    """Exponentially weighted tasks per second."""

    def __init__(self) -> None:
        self._weight = 0.0
        self._at = 0.0

    def add(self, count: int, now: float) -> None:
        """Note ``count`` finished tasks; monotonic seconds."""
        self._decay(now)
        self._weight += count

    def per_second(self, now: float) -> float:
        """Return the rate; it falls while nothing finishes."""
        self._decay(now)
        return self._weight / WINDOW

    def _decay(self, now: float) -> None:
        self._weight *= math.exp((self._at - now) / WINDOW)
        self._at = now


class RoundTrip:
    """Seconds of the pool's work that have to be on their way for hardly any slot to wait.

    Where nothing is queued, slots wait for want of tasks, and the round trip grows to its longest:
    nobody is kept waiting by it then, and it shrinks within a moment of a queue's beginning.
    """

    def __init__(self) -> None:
        self.seconds = LONGEST
        self._ends: deque[float] = deque(maxlen=MOST_ENDS)
        self._idle = 0.0
        #: The least that was held beyond the slots when something arrived.
        self._spare: int | None = None
        self._since = 0.0

    def ended(self, at: float) -> None:
        """Note that a task ended, at a monotonic second."""
        self._ends.append(at)

    def arrived(self, count: int, free: int, now: float) -> None:
        """Note that ``count`` deliveries arrived while ``free`` slots had none; below 0: spare."""
        self._spare = -free if self._spare is None else min(self._spare, -free)
        filled = min(count, free, len(self._ends))
        if filled > 0:
            waiting = list(islice(reversed(self._ends), min(free, len(self._ends))))
            self._idle += sum(now - end for end in waiting[-filled:])

    def adjust(self, rate: float, slots: int, now: float) -> None:
        """Follow what was noted, every :data:`LOOK` seconds; ``rate`` is tasks per second."""
        passed = now - self._since
        if passed < LOOK:
            return
        idle, self._idle, self._since = self._idle, 0.0, now
        spare, self._spare = self._spare or 0, None
        if not slots or rate * LONGEST < 1:
            return
        share, wanted = idle / (slots * passed), self.seconds
        if share > MOST_IDLE:
            wanted = max(wanted * STEP, wanted + 1 / rate)
        elif share < LEAST_IDLE:
            wanted = min(wanted / STEP, wanted - max(1, spare) / rate)
        shortest = LONGEST * min(1.0, BRISK * rate / slots)
        self.seconds = min(LONGEST, max(shortest, wanted))


def read_ahead(rate: float, round_trip: float, slots: int, announced: int) -> int:
    """Return how many tasks to hold beyond the slots; ``round_trip`` is in seconds.

    Rounded to steps of a third, with ``announced`` kept while it is near: every change of the
    announcement wakes the scheduler.
    """
    wanted = min(rate * round_trip, DEEPEST * slots)
    # Asked first: a single task is kept for as long as any other number is.
    if announced and 0.67 * announced <= wanted <= 1.5 * announced:
        return min(announced, DEEPEST * slots)
    return int(wanted)


def pool_size(consumer: Any) -> int:
    """Return how many tasks the pool runs at once, at most: the maximum under autoscale."""
    scaler = getattr(consumer.controller, "autoscaler", None)
    if scaler is not None:
        return int(scaler.max_concurrency)
    try:
        return int(consumer.pool.num_processes or 1)
    except AttributeError:  # a prefork pool that has just been stopped
        return int(consumer.pool.limit or 1)


class Slots:
    """The pool's places that are not held by tasks of the broker.

    A task that was settled at its start counts as one of them: its place is taken, and the store
    knows nothing of it any more.

    A worker whose broker queue never runs dry would have no place left for scheduled tasks, for as
    long as that lasts. So once it has been full for :data:`CROWDED` seconds, and more tasks have
    started in that time than it has places, it offers one: scheduled tasks then take turns with
    the broker's in the pool's own line.
    """

    def __init__(self) -> None:
        self._full_since: float | None = None
        self._started = 0

    def offered(self, size: int, table: DeliveryTable, now: float) -> int:
        """Return how many of ``size`` places scheduled tasks may take; ``now`` is monotonic."""
        ours = sum(held.reserved for held in tuple(table.ids.values()))
        others = max(0, len(state.reserved_requests) - ours)
        started: int = state.all_total_count[0]
        if others < size:
            self._full_since = None
            return size - others
        if self._full_since is None:
            self._full_since, self._started = now, started
        crowded = started - self._started > size or others > size
        return int(crowded and now - self._full_since > CROWDED)
