"""The step in Celery's worker: from boot to the last settlement.

Celery starts the step with every start of its Consumer, so also after each loss of the broker. The
table and the I/O thread live as long as the process; what belongs to one Consumer (strategies, the
place in its event loop) is made anew.

========================  ====================================================================
``start``                 first: the I/O thread; again: what Celery forgot is handed over again
``register_with_...``     the event loop waits for arrived deliveries
``stop``                  a restart: nothing; a shutdown: reading ends, the waiting is given back,
                          and remote control goes on until the pool is empty
``shutdown``              after pool and event loop: the last settlement, and the worker withdraws
========================  ====================================================================
"""

from __future__ import annotations

from time import monotonic
from typing import Any

from celery import bootsteps
from celery.worker import state
from celery.worker.state import task_ready

from tq_celery.logs import Log
from tq_celery.settings import Settings
from tq_celery.stopping import remembered
from tq_celery.task import TQTask, give_ids_in_replace
from tq_celery.worker.chords import end_outer_chords
from tq_celery.worker.credit import Slots, pool_size
from tq_celery.worker.deliveries import DeliveryTable
from tq_celery.worker.green import keep_yielding, start_native
from tq_celery.worker.handover import Handover, handover_for
from tq_celery.worker.heartbeats import never_wait
from tq_celery.worker.inspecting import Inspecting
from tq_celery.worker.late_control import LateControl
from tq_celery.worker.lines import write_json
from tq_celery.worker.lost_process import look_until_it_is_gone, read_before_handing_on
from tq_celery.worker.obituaries import obituary_fields, write_obituary
from tq_celery.worker.panel import hook_panel
from tq_celery.worker.reader import Offer, Reader
from tq_celery.worker.reconnecting import take_results, tend_while_reconnecting
from tq_celery.worker.refusal import or_end
from tq_celery.worker.request import stopping
from tq_celery.worker.revocations import Revocations
from tq_celery.worker.standin import StandIn
from tq_celery.worker.strategy import Strategies
from tq_celery.worker.traced import trace_ends, trace_tasks

__all__ = ["TQStep"]

log = Log("tq_celery.worker")

#: Longest time the event loop is kept by one hand-over, seconds.
SPELL = 0.01
#: Deliveries in the prefork pool's hands per slot: one runs, one waits for its process.
PREFORK_DEPTH = 2
#: Seconds without slots after each look at a prefork pool whose broker is away; one look a second.
UNABLE = 2.5
#: Longest wait for the last settlement, seconds.
LAST_SETTLEMENT = 5.0


def _expose(settings: Settings, reader: Reader) -> Any:
    """Answer scrapes; a port that is taken ends the worker with a line that says so."""
    if settings.metrics_port == "off":
        return None
    from tq_celery.worker.exposition import open_endpoint

    with or_end():
        endpoint = open_endpoint(settings, reader)
    endpoint.start()
    return endpoint


class TQStep(bootsteps.StartStopStep):
    """Reads the exec streams of the queues that the worker consumes."""

    requires = ("celery.worker.consumer.tasks:Tasks",)
    label = "TQ"

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        self._consumer: Any = c
        self.reader: Reader | None = None
        self._handover: Handover | None = None
        self._strategies: Strategies | None = None
        self._spent: list[StandIn] = []
        self._closed = False
        #: Until when, in monotonic seconds, the pool starts nothing for want of a broker.
        self._unable_until = 0.0
        self._late_control: LateControl | None = None
        self._inspecting: Inspecting | None = None
        self._endpoint: Any = None
        # before the pool starts, so that its processes have it too
        with or_end():
            if c.app.tq.settings.log_format == "json":
                write_json()
        trace_tasks(c.app)
        end_outer_chords(c.app)
        for task in c.app.tasks.values():
            if not isinstance(task, TQTask):  # a route may schedule it
                give_ids_in_replace(task)

    # -- Celery's calls ------------------------------------------------------------------------

    def start(self, c: Any) -> None:
        self._consumer = c
        kind = c.pool.__class__.__module__.rpartition(".")[2]
        self._in_process = kind != "prefork"
        if self.reader is None:
            keep_yielding()
            self._begin(c, kind)
        assert self.reader is not None
        hook_panel(c, self.reader.revocations)
        never_wait(c.event_dispatcher)
        if self._inspecting is None:
            self._inspecting = Inspecting(c.app, self.reader)
        self._inspecting.hook(c)
        self._strategies = Strategies(c, self._table, in_process=self._in_process)
        self._unable_until = 0.0
        assert self._handover is not None
        if not self._in_process:
            self._table.hand_over_again()
        self._handover.start(c)

    def register_with_event_loop(self, c: Any, hub: Any) -> None:
        """Join the event loop of this start."""
        if self._handover is not None:
            self._handover.register(hub)

    def stop(self, c: Any) -> None:
        if c.blueprint.state in (bootsteps.CLOSE, bootsteps.TERMINATE):
            self._close()
            if state.active_requests:
                self._late_control = LateControl(c)
                self._late_control.start()

    def terminate(self, c: Any) -> None:
        self._close()

    def _close(self) -> None:
        self._closed = True
        if self.reader is not None:
            self._table.departed.set()

    def shutdown(self, c: Any) -> None:
        """Settle for the last time: the pool is empty and the event loop gone."""
        self._closed = True
        if self._late_control is not None:
            self._late_control.stop()
        if self._handover is not None:
            self._handover.stop()
        if self.reader is not None:
            if self.reader.stop(LAST_SETTLEMENT):
                self._table.close()
            else:
                log.warning("the store took too long; the lease returns what is not settled")
            for stand_in in (*self._spent, self.reader.stand_in):
                if stand_in is not None:
                    stand_in.stop()
            self.reader = None
        if self._inspecting is not None:
            self._inspecting.close()
        if self._endpoint is not None:
            self._endpoint.stop()

    def info(self, c: Any) -> dict[str, Any]:
        """What ``inspect stats`` shows of the worker's scheduled side."""
        return {} if self._inspecting is None else {"tq": self._inspecting.stats()}

    # -- ours ----------------------------------------------------------------------------------

    def _begin(self, c: Any, kind: str) -> None:
        settings = c.app.tq.settings
        self._table = DeliveryTable()
        self._slots = Slots()
        reader = Reader(settings, self._table, self._offer, pool=kind)
        self._endpoint = _expose(settings, reader)
        trace_ends(c.app, self._table, reader.store, reader.name)
        reader.revocations = Revocations(remembered(), self._table.departed.set)
        if self._in_process:
            reader.stand_in = self._new_stand_in(reader)
        else:
            read_before_handing_on(c.pool._pool)
            look_until_it_is_gone(c.pool._pool)
        self.reader = reader
        self._handover = handover_for(c, self._table.arrived, self._pump)
        self._close_before_soft_shutdown(c.controller)
        tend_while_reconnecting(c, self._tend)
        start_native(reader.run)

    def _close_before_soft_shutdown(self, controller: Any) -> None:
        """Let reading end when a soft shutdown begins: Celery sleeps through it in a signal."""
        wait = controller.wait_for_soft_shutdown

        def close_and_wait() -> None:
            self._close()
            wait()

        controller.wait_for_soft_shutdown = close_and_wait

    def _tend(self) -> None:
        """Go on with scheduled tasks in the main thread while it waits for the broker."""
        c = self._consumer
        if getattr(c.pool, "is_green", False):
            return  # its greenlets go on
        if self._in_process:
            self._pump()
        elif c.hub is not None and c.pool._pool is not None:
            self._unable_until = monotonic() + UNABLE
            take_results(c.pool._pool)

    def _new_stand_in(self, reader: Reader) -> StandIn:
        settings = self._consumer.app.tq.settings
        return StandIn(settings.url, reader.store.keys.prefix, reader.name, settings.lease)

    def _offer(self) -> Offer:
        """Say what the worker can take; called by the I/O thread."""
        c = self._consumer
        queues = tuple(sorted(c.app.amqp.queues.consume_from))
        now = monotonic()
        slots = self._slots.offered(pool_size(c), self._table, now)
        if now < self._unable_until:
            slots = 0
        return Offer(queues, slots, not (self._closed or stopping()))

    def _pump(self) -> None:
        """Hand over what has arrived, for a short spell; called in Celery's thread of control."""
        table, reader, strategies = self._table, self.reader, self._strategies
        if reader is None or strategies is None:
            return
        while table.forgotten:
            task_ready(table.forgotten.popleft())
        if reader.stand_in is not None and reader.stand_in.gone:
            log.warning("the renewer process has ended; starting another")
            # its descriptors stay open to the end: the I/O thread may be using them right now
            self._spent.append(reader.stand_in)
            reader.stand_in.reap()
            reader.stand_in = self._new_stand_in(reader)
        end = monotonic() + SPELL
        most = pool_size(self._consumer) * PREFORK_DEPTH if not self._in_process else 0
        fetched, waiting = table.fetched, table.waiting
        while fetched and not stopping():
            if most and len(waiting) - len(fetched) >= most:
                break
            held = fetched.popleft()
            if held in waiting:
                strategies.hand_over(held)
            if monotonic() > end:
                table.arrived.set()
                break
        while reader.obituaries:
            self._write(reader, reader.obituaries.popleft())
            if monotonic() > end and reader.obituaries:
                table.arrived.set()
                break

    def _write(self, reader: Reader, obituary: Any) -> None:
        c = self._consumer
        try:
            write_obituary(c.app, obituary, c.hostname, c.event_dispatcher)
        except Exception:
            # It stays in the store and is read again by whoever recovers this worker's share.
            log.exception("an obituary could not be written", **obituary_fields(obituary))
            return
        reader.written.append(obituary)
        self._table.departed.set()
