"""From ingress to ranked batches: reads ahead, ranks, and tells the other loops what woke it.

Reading and admitting are two loops so that they overlap: while the server runs one ``admit``, the
next batch is read, unpacked and ranked here. A :class:`Handover` of two batches joins them.

Ingress is read from its front at the start of a term and after any failure. That is all there is to
recovering what a dead leader had read: an entry stays in ingress until the script that admits it
removes it in the same step, and admitting an entry that is gone does nothing.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tq_celery.policies.contract import Policy, Task
from tq_celery.scheduler.leader import Leadership
from tq_celery.scheduler.loop import Quiet
from tq_celery.scheduler.ranking import (
    LEAST_COST,
    LONGEST_TENANT,
    MOST_COST,
    RankingBox,
    check_values,
)
from tq_celery.scheduler.stats import SchedulerStats
from tq_celery.scheduler.term import TermLoop
from tq_celery.store.contract import Admission, Arrival, LeaderStore
from tq_celery.store.record import ARRIVAL, MAX_SCORE, RECORD

__all__ = ["FRONT", "Arrivals", "Batch", "Handover", "rank_arrivals"]

#: The cursor that starts at the front of ingress.
FRONT = b""
#: Seconds one read blocks at most; a stop is noticed within this time.
BLOCK = 0.5


class Batch(NamedTuple):
    """Arrivals of one read: ``ranked`` under ``generation``, and those that cannot be read."""

    generation: int
    ranked: Sequence[Admission]
    unreadable: Sequence[Arrival]


class Handover:
    """A queue of at most ``depth`` batches that can be emptied and restarted from either side.

    ``serial`` counts restarts: a batch read before a restart is refused after it.
    """

    def __init__(self, depth: int = 2) -> None:
        self._depth = depth
        self._batches: deque[Batch] = deque()
        self._changed = threading.Condition()
        self.serial = 0

    def put(self, batch: Batch, serial: int, timeout: float) -> bool:
        """Add a batch when there is room within ``timeout`` s; ``False`` when there was none."""
        with self._changed:
            self._changed.wait_for(
                lambda: len(self._batches) < self._depth or self.serial != serial, timeout
            )
            if self.serial != serial:
                return True  # nobody wants it any more, which is as good as taken
            if len(self._batches) >= self._depth:
                return False
            self._batches.append(batch)
            return True

    def take(self) -> Batch | None:
        """Return the oldest batch, ``None`` when there is none."""
        with self._changed:
            if not self._batches:
                return None
            self._changed.notify_all()
            return self._batches.popleft()

    def restart(self) -> None:
        """Throw away what has been read; the reader starts from the front."""
        with self._changed:
            self._batches.clear()
            self.serial += 1
            self._changed.notify_all()


class Arrivals(TermLoop):
    """Reads and ranks; blocks in the store, so it needs a store of its own."""

    name = "arrivals"

    def __init__(
        self,
        store: LeaderStore,
        leadership: Leadership,
        stats: SchedulerStats,
        quiet: Quiet,
        *,
        ranking: RankingBox,
        handover: Handover,
        batch: int,
        admit: Callable[[], None],
        woken: Callable[[frozenset[str]], None],
        block: float = BLOCK,
    ) -> None:
        """``admit`` is called when a batch is ready and ``woken`` with the kinds of wakes read."""
        super().__init__(leadership, stats.loop(self.name), quiet)
        self._store = store
        self._ranking = ranking
        self._handover = handover
        self._batch = batch
        self._admit = admit
        self._woken = woken
        #: Seconds a read blocks; 0 for a single round in a caller's thread.
        self.block = block
        self._cursor = FRONT
        self._serial = 0
        self._ready: Batch | None = None

    def begin(self, epoch: int) -> None:
        """Start at the front, and wake every loop: wakes of the time before are unknown."""
        self._ranking.forget()
        self._handover.restart()
        self._front()
        self._woken(frozenset({"credit", "workers", "config", "delayed"}))

    def step(self, epoch: int) -> float:
        """Read one batch, or go on waiting for room for the last one."""
        if self._serial != self._handover.serial:
            self._front()
        if self._ready is None:
            read = self._store.read_ingress(self._cursor, self._batch, round(self.block * 1000))
            if read.wakes:
                self._woken(read.wakes)
            self._cursor = read.cursor
            if not read.arrivals:
                return 0.0 if self.block else BLOCK
            policy, generation = self._ranking.read(self._store)
            self._ready = Batch(generation, *rank_arrivals(policy, read.arrivals))
        if self._handover.put(self._ready, self._serial, self.block):
            self._ready = None
            self._admit()
        return 0.0

    def recover(self) -> None:
        """Read from the front again."""
        super().recover()
        self._handover.restart()

    def _front(self) -> None:
        self._serial = self._handover.serial
        self._cursor = FRONT
        self._ready = None


def rank_arrivals(
    policy: Policy, arrivals: Sequence[Arrival]
) -> tuple[list[Admission], list[Arrival]]:
    """Rank what can be read; return it and, with a reason, what cannot.

    An entry's id becomes the arrival in its record: the id is the store's clock, the same for every
    producer. This runs once per task on the path that bounds throughput, hence the local names.
    """
    ranked: list[Admission] = []
    unreadable: list[Arrival] = []
    unpack, pack, rank, size = RECORD.unpack_from, ARRIVAL.pack, policy.rank, ARRIVAL.size
    add, most = ranked.append, LONGEST_TENANT
    for arrival in arrivals:
        entry, queue, tenant, record, fields, reason = arrival
        if fields is not None or reason:
            unreadable.append(arrival)
            continue
        try:
            ms, _, seq = entry.partition(b"-")
            at = int(ms)
            _, _, cost, priority, deadline, _, _, _, _ = unpack(record)
            if not LEAST_COST <= cost <= MOST_COST or deadline > MAX_SCORE or len(tenant) > most:
                check_values(cost, deadline, tenant)
            score = rank(Task(at, cost, priority, deadline))
            add(Admission(entry, queue, tenant, score, pack(at, int(seq)) + record[size:]))
        except (struct.error, ValueError, ArithmeticError) as error:
            unreadable.append(arrival._replace(reason=f"{type(error).__name__}: {error}"))
    return ranked, unreadable
