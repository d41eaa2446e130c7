"""The I/O thread: everything the worker says to the store, and everything it hears from it.

One real thread, under gevent too, with connections of its own. It never waits for the pool, the
event loop or the broker, and they never wait for it: deliveries go in and outcomes come out through
the delivery table.

One turn: write what has ended, renew the lease when it is due, ask for as many deliveries as there
is room for, and wait for whichever comes first of the reply, an outcome, or the clock. The read is
sent on one connection and awaited with ``select`` (see :mod:`tq_celery.store.split_read`), so an
outcome never waits behind a blocking read. Outcomes that end while a batch is on its way make the
next batch; that is where the throughput comes from.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any

from tq_celery.errors import StoreError
from tq_celery.logs import Log
from tq_celery.settings import Settings
from tq_celery.store.contract import (
    MAX_BATCH,
    Obituary,
    Return,
    Settlement,
    WorkerAnnouncement,
)
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.split_read import SplitRead
from tq_celery.worker.credit import FinishRate, RoundTrip, read_ahead
from tq_celery.worker.deliveries import Burial, DeliveryTable, Departure, Ended
from tq_celery.worker.lease import Lease
from tq_celery.worker.revocations import Revocations
from tq_celery.worker.standin import StandIn

__all__ = ["Offer", "Reader", "worker_name"]

log = Log("tq_celery.worker")

#: Longest wait of one turn, seconds: how late a shutdown or a new offer is noticed.
TURN = 0.1
#: Deliveries that wait longer than this beyond the read-ahead are given back, seconds.
STALE = 0.05
#: Seconds for which a worker reads as far ahead as it did after its read-ahead has shrunk: what was
#: sent to it by then is read and given back; unread, an urgent task would come behind it.
LINGER = 0.2
#: Seconds between two looks for obituaries.
OBITUARY_EVERY = 0.5
#: From so many obituaries at once on, there may be more.
MANY_OBITUARIES = 32
#: First and longest pause after the store failed, seconds.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
#: Pause in seconds while the pool has plenty to do: outcomes gather into batches.
COALESCE = 0.003
#: Longest block of one read, ms; then the server answers that there is nothing.
BLOCK = 3_500
#: Seconds by which that answer may be late; without it the connection is dead, whatever it looks.
OVERDUE = 1.0
#: Longest wait for the store at the end, seconds.
LAST_WAIT = 4.0
#: Longest wait at the end for revocations to be written, seconds.
LAST_SEARCH = 1.0
#: Seconds between two log lines about a store that stays away.
COMPLAIN_EVERY = 10.0


def worker_name() -> str:
    """Return a name no other process start ever has: host, pid and a random part kept whole."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class Offer:
    """What the worker can take now: its queues, and pool places that broker tasks leave free."""

    queues: tuple[str, ...] = ()
    slots: int = 0
    #: Whether reading goes on; ``False`` gives back what has not started.
    open: bool = True


@dataclass
class Reader:
    """The I/O thread's work; :meth:`run` is the thread, :meth:`turn` one turn for tests.

    ``offer`` is asked every turn and must not block. ``arrived`` obituaries are appended to
    ``obituaries``; written ones are taken from ``written``.
    """

    settings: Settings
    table: DeliveryTable
    offer: Callable[[], Offer]
    name: str = field(default_factory=worker_name)
    pool: str = ""
    stand_in: StandIn | None = None
    revocations: Revocations = field(default_factory=Revocations)

    def __post_init__(self) -> None:
        self.store = RedisStore.open(self.settings)
        self.split = SplitRead(self.store, self.settings)
        self.lease = Lease(self.settings.lease)
        self.obituaries: deque[Obituary] = deque()
        self.written: deque[Obituary] = deque()
        #: Monotonic seconds of the last answer of the store, and whether it still answers.
        self.heard, self.answered = monotonic(), False
        self._rate, self._round_trip = FinishRate(), RoundTrip()
        self._ahead = 0
        #: The deepest read-ahead of late, and since when.
        self._deepest, self._deepest_at = 0, 0.0
        self._unsent: list[Departure] = []
        self._current = Offer()
        self._read_queues: tuple[str, ...] = ()
        self._asked = 0.0
        self._recover = True
        self._joined = False
        self._obituaries_due = 0.0
        self._pause = 0.0
        self._complained = 0.0
        #: Settlements refused since the last line about them: after a flush it is all of them.
        self._stale, self._stale_told = 0, 0.0
        self._stopping = False
        self._finished = False

    # -- life ----------------------------------------------------------------------------------

    def run(self) -> None:
        """Turn until :meth:`stop`; a failing turn backs off and is never the last."""
        while not self._stopping:
            try:
                self.turn()
                self._pause, self.answered = 0.0, True
            except StoreError as error:
                self._failed(error)
            except Exception:
                log.exception("the I/O thread failed; it goes on")
                self._failed(None)
        try:
            self._leave()
        except Exception:
            log.exception("the last settlement failed")
        finally:
            self._finished = True
            self.split.close()
            self.store.close()

    @property
    def slots(self) -> int:
        """Slots offered in the last turn."""
        return self._current.slots

    @property
    def finished(self) -> bool:
        """Whether the thread has ended."""
        return self._finished

    def stop(self, timeout: float) -> bool:
        """Settle what has ended, withdraw, and end the thread; ``False`` when it took longer."""
        self._stopping = True
        end = monotonic() + timeout
        while not self._finished and monotonic() < end:
            self.table.departed.set()
            sleep(0.01)
        return self._finished

    def turn(self) -> None:
        """Do one turn; raises StoreError when the store does not answer."""
        if len(self.table.waiting) > 2 * self._current.slots > 0:
            sleep(COALESCE)
        now = monotonic()
        self.table.departed.clear()
        self._settle(now)
        if self.table.timings is not None:
            self.table.timings.count(now, self.lease.store_time)
        self.revocations.begin(self.settings)
        self._current = offer = self.offer()
        if self._recover:
            self.store.config()  # a renewal may arrive from a worker that hears nothing
        self._keep_lease(now, offer)
        if self._recover:
            self._recover_handed_out(offer)
        if not offer.open:
            self._give_back_waiting()
        self._look_for_obituaries(now, offer)
        capacity = offer.slots + self._ahead
        self._give_back_excess(now, capacity)
        room = 0
        if offer.open and offer.slots:
            room = offer.slots + self._recent_ahead(now) - len(self.table)
        if self.split.outstanding:
            # a read from when there was room would take a task that others could start
            if room <= 0 or self._read_queues != offer.queues:
                self.split.unblock()
        elif room > 0 and offer.queues:
            self._ask(offer, room)
        self._wait(now)

    def _failed(self, error: StoreError | None) -> None:
        now, self.answered = monotonic(), False
        if error is not None and now - self._complained > COMPLAIN_EVERY:
            self._complained = now
            log.warning("the store does not answer, trying again", error=error)
        self.split.close()
        self._recover = True
        self._pause = min(max(self._pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
        sleep(self._pause)

    def _leave(self) -> None:
        """Do the last turn; a store that is away for a moment is waited for."""
        end = monotonic() + LAST_WAIT
        while True:
            try:
                self._last_turn()
                return
            except StoreError as error:
                if monotonic() > end:
                    left = len(self._unsent) + len(self.table)
                    log.warning(
                        "the store is away; the lease returns the rest",
                        deliveries=left,
                        error=error,
                    )
                    return
                sleep(FIRST_PAUSE)

    def _last_turn(self) -> None:
        """Write what has ended and withdraw; the rest is returned by that, uncounted."""
        self.split.unblock()
        self._settle(monotonic())
        self._close_obituaries()
        self.store.withdraw(self.name)
        self.revocations.finish(self.settings, LAST_SEARCH)

    # -- the steps of a turn -------------------------------------------------------------------

    def _settle(self, now: float) -> None:
        """Write the outbox; what cannot be written is kept and written again: tokens decide."""
        outbox, unsent, timings = self.table.outbox, self._unsent, self.table.timings
        while outbox:
            departure = outbox.popleft()
            if type(departure) is Ended:
                self._round_trip.ended(departure.finished)
                if timings is not None:
                    timings.ended.append(departure)
            unsent.append(departure)
        if not unsent:
            return
        at_store = self.lease.store_time
        ended: list[Settlement] = []
        returned: list[Return] = []
        buried: list[Burial] = []
        for item in unsent:
            if type(item) is Ended:
                token, outcome, digest, started, finished, _ = item
                ended.append(
                    Settlement(token, outcome, digest, at_store(started), at_store(finished))
                )
            elif type(item) is Return:
                returned.append(item)
            elif type(item) is Burial:
                buried.append(item)
        stale, spans = 0, self.table.spans
        if spans is not None:
            spans.read()
        if ended:
            stale += self.store.complete(self.name, ended).count(False)
            self._rate.add(len(ended), now)
        if returned:
            stale += self.store.give_back(returned, self.settings.delivery_budget).count(False)
        for burial in buried:
            stale += not self.store.bury(self.name, burial.token, burial.reason)
        self._unsent = []
        self.heard = monotonic()
        if spans is not None:
            spans.write(at_store, self.heard)
        self._stale += stale
        if stale and now - self._stale_told > 1.0:
            log.warning(
                "deliveries had passed to others before they were settled", deliveries=self._stale
            )
            self._stale, self._stale_told = 0, now

    def _keep_lease(self, now: float, offer: Offer) -> None:
        if self.stand_in is not None:
            stood_in = self.stand_in.last()
            if stood_in:
                self.lease.extended(stood_in)
            if self.stand_in.gone:
                self.table.arrived.set()  # the event loop starts another
        slots = offer.slots if offer.open else 0
        rate = self._rate.per_second(now)
        self._round_trip.adjust(rate, slots, now)
        self._ahead = read_ahead(rate, self._round_trip.seconds, slots, self._ahead)
        announcement = WorkerAnnouncement(
            self.name, offer.queues if offer.open else (), slots, self._ahead,
            host=socket.gethostname(), pid=os.getpid(), pool=self.pool,
            epoch=self.table.epochs.newest, epoch_since=self.table.epochs.since,
        )  # fmt: skip
        # after a failure the server may be another one, which is to know what we offer at once
        if not self._recover and self.lease.due(now) > 0 and not self.lease.changed(announcement):
            return
        held = self.lease.renew(self.store, announcement)
        self.heard = monotonic()
        if self.stand_in is not None:
            self.stand_in.note()
        if not held:
            if self._joined:
                log.warning("the lease had lapsed; what has not started is given back")
                self._give_back_waiting()
            self._joined = True

    def _recover_handed_out(self, offer: Offer) -> None:
        """Take in deliveries whose reply was lost on a broken connection."""
        known = self.table.tokens() | {item.token for item in self._unsent}
        found = self.split.handed_out(self.name, offer.queues)
        lost = [delivery for delivery in found if delivery.token not in known]
        if lost:
            self.table.take(lost, monotonic())
        self._recover = False

    def _recent_ahead(self, now: float) -> int:
        """Return the deepest read-ahead of the last :data:`LINGER` seconds."""
        if self._ahead >= self._deepest or now - self._deepest_at > LINGER:
            self._deepest, self._deepest_at = self._ahead, now
        return self._deepest

    def _give_back_waiting(self) -> None:
        for held in self.table.reclaim_waiting(0, float("inf")):
            self.table.give_back(held)

    def _give_back_excess(self, now: float, capacity: int) -> None:
        """Return what waits too long beyond the capacity: a more urgent task may come."""
        keep = capacity - len(self.table.running)
        if len(self.table.waiting) > keep:
            for held in self.table.reclaim_waiting(keep, now - STALE):
                self.table.give_back(held)

    def _look_for_obituaries(self, now: float, offer: Offer) -> None:
        self._close_obituaries()
        if now < self._obituaries_due or self.obituaries or not offer.open:
            return
        found = self.store.read_obituaries(self.name, offer.queues)
        # a purge leaves thousands: the next are read as soon as these are written
        self._obituaries_due = now + (0.0 if len(found) >= MANY_OBITUARIES else OBITUARY_EVERY)
        if found:
            self.obituaries.extend(found)
            self.table.arrived.set()

    def _close_obituaries(self) -> None:
        written = [self.written.popleft() for _ in range(min(len(self.written), MAX_BATCH))]
        if written:
            self.store.close_obituaries(written)

    def _ask(self, offer: Offer, room: int) -> None:
        """Send the read. COUNT is per stream, so several queues share the room."""
        queues = offer.queues
        count = room
        if len(queues) > 1:
            count = room // len(queues)
            if count == 0:
                deliveries = self.store.read(self.name, dict.fromkeys(queues, 1), 0)
                if deliveries:
                    self._received(deliveries)
                    return
                count = 1
        self.split.start(self.name, queues, min(count, MAX_BATCH), BLOCK)
        self._read_queues, self._asked = queues, monotonic()

    def _received(self, deliveries: Sequence[Any]) -> None:
        self.heard = monotonic()
        if deliveries:
            free = self._current.slots - len(self.table)
            self._round_trip.arrived(len(deliveries), free, self.heard)
            self.table.take(deliveries, self.heard)

    def _wait(self, now: float) -> None:
        """Sleep until there is something to do, and take the reply if it has come."""
        if self.table.outbox or self._stopping:
            timeout = 0.0
        else:
            timeout = min(TURN, max(0.005, self.lease.due(now)))
        sources: list[Any] = [self.table.departed.fileno()]
        if self.split.outstanding:
            sources.append(self.split)
        ready, _, _ = select.select(sources, [], [], timeout)
        if self.split in ready:
            self._received(self.split.finish())
        elif self.split.outstanding and monotonic() - self._asked > BLOCK / 1000 + OVERDUE:
            # a firewall that forgot the connection tells neither side; what the server handed out
            # on it would be held under our lease for ever
            log.warning("a read was not answered in time; the next one is on a new connection")
            self.split.close()
            self._recover = True
