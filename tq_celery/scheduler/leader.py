"""Which scheduler leads, for how long it may believe so, and how it stops.

**Who is authoritative.** The store. A namespace has one lease key with an owner and a time to
live; the process that holds it leads. Nothing a process believes about itself makes it leader.

**Term.** Every grant of the lease has an *epoch*, a number greater than that of every grant before
it and of every epoch that has ever written. A term is one process leading under one epoch. Renewing
and resigning name both owner and epoch, so a late message of an old term cannot prolong or end
another one. Every write of a leader carries its epoch, and the store refuses an epoch lower than
the highest that has written. That check, made inside the write itself, is what keeps a superseded
leader harmless: it may have been frozen between reading the clock and writing.

**Trust window.** Between two renewals a process relies on its own clock for one thing only: to stop
believing in time. After a grant or renewal it trusts its term until ::

    trusted_until = start of the attempt + TTL - margin        (monotonic clock)

counted from the *start* of the attempt, because the store may have begun the lease's TTL at any
moment since; ``margin`` pays for the work between looking at the clock and writing. The renewal
runs every TTL / 4 in its own thread on its own connection, so neither a long batch nor a blocked
read delays it. A failed renewal is repeated until trust runs out.

::

    follower --(granted)--> leader --(renewed)--> leader
       ^                       |
       +--- lease lost, refused by the fence, trust ran out, or stopped

**Following.** A refused or failed attempt makes a follower, never "leader until shown otherwise". A
follower learns from the store how long the lease has left, sleeps in a blocking read that a grant
or a release ends, and tries again when the lease has run out: it does not poll. A deposed leader
goes on as a follower in the same process. A clean stop releases the lease, which wakes the standbys
at once; after a crash they wake when the TTL has passed.

**Refused although it holds the lease.** When the namespace is emptied under a leader, its last
writes can leave a fence above the epoch it is granted next. It then resigns and runs again; a grant
is always above the fence, so the second attempt leads.

**Epochs that a server forgot.** See ``epochs.py``: a grant is above every epoch that this process
knows of, and a term whose epoch turns out to have been in use before ends in the same way.

**Heard, but not hearing.** A call can arrive although its answer does not. What takes or prolongs
the lease is therefore sent, after a failed round, only when the server has answered something that
changes nothing: else a process that cannot lead would keep the lease from those who can.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tq_celery.logs import Log
from tq_celery.scheduler.epochs import Epochs
from tq_celery.scheduler.loop import Loop, Quiet
from tq_celery.scheduler.stats import SchedulerStats
from tq_celery.store.contract import LeaderStore, WorkerAnnouncement

__all__ = ["Election", "Leadership", "owner_name"]

#: Renewals per TTL: three may be lost before the lease is.
RENEWALS = 4
#: The margin as a share of the TTL.
MARGIN = 0.1
#: Seconds a follower blocks in one read, so that it notices a stop in time.
SLICE = 0.5

log = Log("tq_celery.scheduler")


def owner_name() -> str:
    """Return a name for this process that no other process has had."""
    return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:12]}"


class _Term(NamedTuple):
    epoch: int
    trusted_until: float


_NO_TERM = _Term(0, 0.0)


class Leadership:
    """What this process knows about its own term; read by every loop before it writes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Replaced as a whole, so that readers in other threads never see half of a term.
        self._term = _NO_TERM
        self._listeners: list[Callable[[], None]] = []
        #: The epoch of a term that was found to be over, 0 when there is none, and why it is.
        self.refused, self.reason = 0, ""
        self.epochs = Epochs()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever a term starts, ends, or is trusted again after a lapse."""
        self._listeners.append(listener)

    def epoch(self) -> int:
        """Return the epoch of the present term, 0 when this process may not lead (any more)."""
        now = self._clock()  # before the term, so that `trust` misses no loop that found it over
        epoch, trusted_until = self._term
        return epoch if now < trusted_until else 0

    def trust(self, epoch: int, until: float) -> None:
        """Believe in the term ``epoch`` until ``until`` on the monotonic clock."""
        before, self._term = self._term, _Term(epoch, until)
        # an outage may outlast the trust but not the lease: the loops rest as followers by then
        if epoch != before.epoch or self._clock() >= before.trusted_until:
            self._tell()

    def end(self) -> None:
        """Believe in no term."""
        self._term = _NO_TERM
        self._tell()

    def refuse(self, epoch: int, reason: str = "refused by the fence") -> None:
        """Note that the term ``epoch`` is over: a write was refused, or as ``reason`` says."""
        if epoch == self._term.epoch:
            self.reason, self.refused = reason, epoch
            self.end()

    def hear(self, workers: Iterable[WorkerAnnouncement]) -> None:
        """Take in the epochs that workers announce; they may tell that the present term is over."""
        epoch = self._term.epoch
        if (reason := self.epochs.is_over(epoch, workers)) and epoch:
            self.refuse(epoch, reason)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()


class Election(Loop):
    """Runs for the lease, renews it, steps down and resigns."""

    name = "leader"

    def __init__(
        self,
        store: LeaderStore,
        leadership: Leadership,
        stats: SchedulerStats,
        quiet: Quiet,
        *,
        owner: str,
        ttl: float,
        prepare: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``ttl`` in seconds; ``prepare`` runs after a grant and before anybody leads."""
        super().__init__(stats.loop(self.name), quiet)
        self._store = store
        self._leadership = leadership
        self._counts = stats
        self._owner = owner
        self._ttl = ttl
        self._prepare = prepare
        self._clock = clock
        self._held = 0
        self._unheard = False
        #: Whether a follower waits for the lease; not in a single round in a caller's thread.
        self.patient = True
        leadership.subscribe(self.wake)

    def run_once(self) -> float:
        """Renew or run for the lease; return the seconds until the next renewal."""
        if self._unheard:
            self._store.config()
            self._unheard = False
        refused, self._leadership.refused = self._leadership.refused, 0
        if self._held and refused == self._held:
            self._step_down(self._leadership.reason)
            self._store.resign(self._owner, refused)
        return self._renew() if self._held else self._run_for_lease()

    def recover(self) -> None:
        """Ask whether the server is heard before anything is sent again."""
        self._unheard = True

    def finish(self) -> None:
        """Resign."""
        held, self._held = self._held, 0
        if held:
            self._leadership.end()
            self._counts.epoch = 0
            resigned = self._store.resign(self._owner, held)
            log.info("resigned", owner=self._owner, epoch=held, released=resigned)

    def _renew(self) -> float:
        started = self._clock()
        if self._store.extend(self._owner, self._held, self._milliseconds()):
            self._leadership.trust(self._held, self._trusted_from(started))
            return max(0.0, self._ttl / RENEWALS - (self._clock() - started))
        self._step_down("the lease is gone")
        return 0.0

    def _run_for_lease(self) -> float:
        started = self._clock()
        epochs = self._leadership.epochs
        grant = self._store.elect(self._owner, self._milliseconds(), epochs.newest)
        self.stats.reached()
        if not grant.epoch:
            if epochs.refused(grant):
                log.warning("another leads under an epoch of ours", epoch=grant.in_force)
                return 0.0  # with a floor above it, the next attempt has that leader elected anew
            # a lease that seems to last longer is one whose server's clock was set back
            self._await(min(grant.remaining / 1000, self._ttl))
            return 0.0
        epochs.granted(grant)
        try:
            self._prepare()
        except Exception:
            # Not fit to lead: let another replica try instead of sitting on the lease.
            self._store.resign(self._owner, grant.epoch)
            raise
        self._held = grant.epoch
        self._counts.terms += 1
        self._counts.epoch = grant.epoch
        self._leadership.trust(grant.epoch, self._trusted_from(started))
        log.info("leading", owner=self._owner, epoch=grant.epoch)
        return max(0.0, self._ttl / RENEWALS - (self._clock() - started))

    def _await(self, remaining: float) -> None:
        """Block until the lease is released, granted anew or run out, or this loop is stopped."""
        expiry = self._clock() + remaining
        while self.patient and not self.stopping:
            left = expiry - self._clock()
            if left <= 0:
                return
            happened = self._store.await_succession(max(1, round(min(left, SLICE) * 1000)))
            self.stats.reached()
            if happened:
                return

    def _step_down(self, reason: str) -> None:
        log.warning("no longer leading", owner=self._owner, epoch=self._held, reason=reason)
        self._held = 0
        self._counts.depositions += 1
        self._counts.epoch = 0
        self._leadership.end()

    def _trusted_from(self, started: float) -> float:
        return started + self._ttl * (1 - MARGIN)

    def _milliseconds(self) -> int:
        return round(self._ttl * 1000)
