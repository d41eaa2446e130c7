"""A scheduler process: its loops, how they wake each other, and how it starts and stops.

::

    arrivals --batches--> admit ----+
        |                           +--> dispatch
        +--wakes--> promote --------+
        +--wakes----------------------> dispatch
    account   every few seconds: tenants' series, the time of the slots
    leader   (election)  starts and ends the five above
    reclaim  runs whether this process leads or not

Each loop is a thread with a store of its own, so admission's packing in Python overlaps with the
server's work for dispatch, and a blocked read holds up nothing. See ``loop.py`` for how a loop
waits and fails and ``leader.py`` for what leading means.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

from tq_celery.logs import Log
from tq_celery.scheduler.account import Account
from tq_celery.scheduler.admit import Admit
from tq_celery.scheduler.arrivals import BLOCK, Arrivals, Handover
from tq_celery.scheduler.dispatch import ADMITTED, Dispatch
from tq_celery.scheduler.leader import Election, Leadership, owner_name
from tq_celery.scheduler.loop import Loop, Quiet
from tq_celery.scheduler.promote import Promote
from tq_celery.scheduler.ranking import RankingBox
from tq_celery.scheduler.reclaim import Reclaim
from tq_celery.scheduler.stats import SchedulerStats
from tq_celery.scheduler.stores import TIMEOUT, SchedulerStore, StoreFactory, open_store
from tq_celery.scheduler.workers import Workforce
from tq_celery.settings import Settings

__all__ = ["Scheduler"]

#: Seconds a stop waits for a write in progress before the lease is released.
QUIESCE = 0.5
#: Seconds a stop waits for the loops' threads after that.
LINGER = 2.0

#: Objects made between two looks for garbage in a process that does nothing else.
COLLECT_EVERY = 50_000

log = Log("tq_celery.scheduler")


class Scheduler:
    """One scheduler of a namespace; any number may run, one leads.

    ``run()`` serves a process until it is signalled. ``start()``, ``stop()`` and ``join()`` serve a
    program that does other things as well; ``run_once()`` does one round of everything in the
    caller's thread, for tests. A scheduler is started once.
    """

    def __init__(
        self,
        settings: Settings,
        store_factory: StoreFactory = open_store,
        *,
        owner: str | None = None,
    ) -> None:
        """``owner`` names this process in the lease; it must be unique."""
        self.settings = settings
        self.owner = owner or owner_name()
        self.stats = SchedulerStats()
        self.leadership = Leadership()
        self._stores: list[SchedulerStore] = []
        self._make_store = store_factory
        self._started = self._signalled = False
        self._stopped = threading.Event()
        self._build()

    @property
    def leading(self) -> bool:
        """Whether this process may lead at this moment."""
        return bool(self.leadership.epoch())

    def start(self) -> None:
        """Start all loops in threads; returns at once."""
        self._started = True
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """Stop leading, release the lease and end all loops; waits up to about 2 s for them."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        if not self._started:
            self._election.finish()  # after single rounds: the lease is ours all the same
        for loop in self._term_loops:
            loop.stop()
        # Writers finish the script they are in; the reader may stay blocked, it writes nothing.
        deadline = time.monotonic() + QUIESCE
        for loop in (self._dispatch, self._admit, self._promote, self._account):
            loop.join(max(0.0, deadline - time.monotonic()))
        self._reclaim.stop()
        self._election.stop()
        self.join(LINGER)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until every loop has ended; ``False`` when one has not within ``timeout`` s."""
        deadline = None if timeout is None else time.monotonic() + timeout
        ended = True
        for loop in [self._election, *self._loops]:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ended = loop.join(left) and ended
        if ended:
            for store in self._stores:
                with contextlib.suppress(Exception):
                    store.close()
        return ended

    def run(self) -> None:
        """Run until SIGTERM or SIGINT; returns after a clean stop. A second signal ends at once.

        Raises SettingsError before anything has begun when the port of the metrics is taken.
        """
        # A batch is thousands of short-lived tuples, none in a cycle: looking for garbage among
        # them took a quarter of the time of admission.
        gc.freeze()
        gc.set_threshold(COLLECT_EVERY, 10, 10)
        with self._exposed():
            self._serve()

    def _serve(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            with self._signals(writer):
                self.start()
                log.info("scheduler started", owner=self.owner, namespace=self.settings.namespace)
                while not self._signalled and not self._stopped.is_set():
                    select.select([reader], [], [], 1.0)
                self.stop()
        finally:
            os.close(reader)
            os.close(writer)
        log.info("scheduler stopped", owner=self.owner)

    def run_once(self) -> None:
        """Do one round of every loop in this thread, in the order in which a task meets them.

        Raises nothing: failures are in ``stats``, as when the loops run in threads.
        """
        self._arrivals.block, self._election.patient = 0.0, False
        for loop in self._loops:
            loop.attempt()

    def _build(self) -> None:
        settings, stats, quiet = self.settings, self.stats, Quiet()
        ranking, handover = RankingBox(), Handover()
        self._dispatch = Dispatch(
            self._store(), self.leadership, stats, quiet,
            ranking=ranking, batch=settings.batch, workforce=Workforce(settings.lease),
        )  # fmt: skip
        self._promote = Promote(
            self._store(), self.leadership, stats, quiet,
            ranking=ranking, batch=settings.batch,
            promoted=lambda: self._dispatch.notify(ADMITTED),
            switched=lambda: self._dispatch.notify("config"),
        )  # fmt: skip
        self._admit = Admit(
            self._store(), self.leadership, stats, quiet,
            ranking=ranking, handover=handover,
            admitted=lambda: self._dispatch.notify(ADMITTED),
            switched=lambda: self._dispatch.notify("config"),
        )  # fmt: skip
        self._arrivals = Arrivals(
            self._store(), self.leadership, stats, quiet,
            ranking=ranking, handover=handover, batch=settings.batch,
            admit=self._admit.wake, woken=self._woken, block=BLOCK,
        )  # fmt: skip
        self._account = Account(
            self._store(), self.leadership, stats, quiet, tenants=settings.metrics_tenants
        )
        self._election_store = self._store(max(0.5, settings.leader_ttl / 2))
        self._election = Election(
            self._election_store, self.leadership, stats, quiet,
            owner=self.owner, ttl=settings.leader_ttl, prepare=self._prepare,
        )  # fmt: skip
        self._reclaim = Reclaim(
            self._store(), stats, quiet,
            lease=settings.lease, budget=settings.delivery_budget, batch=settings.batch,
            hear=self.leadership.hear,
        )  # fmt: skip
        self._term_loops: list[Loop] = [
            self._arrivals, self._admit, self._promote, self._dispatch, self._account,
        ]  # fmt: skip
        # In the order in which one round of each gets a task from ingress to exec.
        self._loops: list[Loop] = [self._election, *self._term_loops, self._reclaim]

    def _store(self, timeout: float = TIMEOUT) -> SchedulerStore:
        store = self._make_store(self.settings, timeout)
        self._stores.append(store)
        return store

    @contextlib.contextmanager
    def _exposed(self) -> Iterator[None]:
        """Answer scrapes meanwhile; raises SettingsError at once when the port is taken."""
        if self.settings.metrics_port == "off":
            yield
            return
        from tq_celery.scheduler.exposition import open_endpoint

        endpoint = open_endpoint(self.settings, self.stats, self.leadership, self._loops)
        endpoint.start()
        try:
            yield
        finally:
            endpoint.stop()

    def _woken(self, kinds: frozenset[str]) -> None:
        """Pass on what the store woke the leader for."""
        if "delayed" in kinds:
            self._promote.wake()
        if kinds != {"delayed"}:
            self._dispatch.notify(*kinds)

    def _prepare(self) -> None:
        """Start an empty namespace before the first write of a term; the stored values win."""
        self._election_store.seed(self.settings)

    @contextlib.contextmanager
    def _signals(self, writer: int) -> Iterator[None]:
        """Let SIGTERM and SIGINT set a flag and wake :meth:`run`; only in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def flag(number: int, frame: FrameType | None) -> None:
            if self._signalled:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            self._signalled = True

        previous = {number: signal.signal(number, flag) for number in _STOPPING}
        wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in previous.items():
                signal.signal(number, handler)


_STOPPING = (signal.SIGTERM, signal.SIGINT)
