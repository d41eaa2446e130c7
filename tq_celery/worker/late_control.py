"""Remote control while a stopping worker's pool empties.

Celery closes its control channel first and then waits for the tasks that run, so the one task that
holds up a deployment can be neither seen nor revoked (celery/celery #8417). From then on a thread,
or a greenlet in a green pool, listens in its place, on a connection of its own.
"""

from __future__ import annotations

from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

from celery.worker.consumer.control import Control
from celery.worker.pidbox import gPidbox

from tq_celery.logs import Log

__all__ = ["LateControl"]

log = Log("tq_celery.worker")

#: Longest wait for Celery's own listener to end, seconds.
HANDING_ON = 2.0
#: How late the end of the pool is noticed, seconds.
SLICE = 0.1
#: Longest wait for a command that is being carried out, seconds.
LAST_COMMAND = 1.0
#: Commands that change what a stopping worker no longer has.
REFUSED = frozenset(
    {
        "add_consumer",
        "autoscale",
        "cancel_consumer",
        "disable_events",
        "enable_events",
        "pool_grow",
        "pool_restart",
        "pool_shrink",
        "shutdown",
    }
)


def _refuse(state: Any, **arguments: Any) -> dict[str, str]:
    return {"error": "the worker is shutting down"}


class LateControl:
    """Answers commands from :meth:`start` to :meth:`stop`; a lost broker ends it early."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._ended, self._done = Event(), Event()
        self._theirs = next((s.box for s in consumer.steps if isinstance(s, Control)), None)

    def start(self) -> None:
        """Listen as soon as Celery no longer does; not where remote control is turned off."""
        if self._theirs is None:
            self._done.set()
            return
        if getattr(self._consumer.pool, "is_green", False):
            self._consumer.pool.spawn_n(self._run)
        else:
            Thread(target=self._run, name="tq-control", daemon=True).start()

    def stop(self) -> None:
        """Listen no longer; what a command has begun, such as a revocation, it ends first."""
        self._ended.set()
        self._done.wait(LAST_COMMAND)

    def _run(self) -> None:
        try:
            self._listen()
        except Exception as error:  # noqa: BLE001 - Celery would not have answered either
            log.warning("remote control ends before the pool is empty", error=error)
        finally:
            self._done.set()

    def _listen(self) -> None:
        theirs: Any = self._theirs
        end = monotonic() + HANDING_ON
        while theirs.consumer is not None and monotonic() < end:
            sleep(0.01)
        consumer = self._consumer
        box: Any = gPidbox(consumer)
        handlers = theirs.node.handlers
        box.node.handlers = {n: _refuse if n in REFUSED else each for n, each in handlers.items()}
        with consumer.app.connection_for_read() as connection:
            box._do_reset(consumer, connection)
            while not self._ended.is_set():
                try:
                    connection.drain_events(timeout=SLICE)
                except TimeoutError:
                    continue
            box._close_channel(consumer)
