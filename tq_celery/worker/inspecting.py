"""What ``celery inspect`` shows of scheduled tasks beside what Celery shows by itself.

Running and fetched tasks are Celery's own requests, so ``active``, ``reserved``, ``revoked`` and
``query_task`` know them. Two commands get more:

``stats``      a section ``tq``: how this worker stands with its store
``scheduled``  also the delayed tasks of its queues, which wait in the store and in no worker. Of
               the workers that consume a queue one answers for it, so a task is listed once

The answers come from the worker's loop. What needs the store is bounded: nothing is asked while
the store does not answer, and one reply that takes too long ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from time import monotonic
from typing import Any

from tq_celery import envelope
from tq_celery.errors import StoreError
from tq_celery.logs import Log
from tq_celery.store.look import Look, Waiting
from tq_celery.worker.mailbox import Handler, put_before
from tq_celery.worker.reader import Reader

__all__ = ["LISTED", "Inspecting"]

log = Log("tq_celery.worker")

#: Most delayed tasks in one answer.
LISTED = 200
#: Seconds without a look after one that failed.
HOLD_OFF = 5.0
#: Longest text of arguments in an answer, characters; Celery cuts them at the call already.
LONGEST_REPR = 1024


class Inspecting:
    """Answers for one worker process; used by its control loop."""

    def __init__(self, app: Any, reader: Reader) -> None:
        self._app = app
        self._reader = reader
        self._look: Look | None = None
        self._not_before = 0.0

    # -- the commands --------------------------------------------------------------------------

    def hook(self, consumer: Any) -> None:
        """Put our commands before those of the consumer's mailbox, once."""

        def commands(handlers: Any) -> dict[str, Handler]:
            listing = self._listing(handlers)
            return {"scheduled": listing, "dump_schedule": listing}

        put_before(consumer, "inspecting", commands)

    def stats(self) -> dict[str, Any]:
        """Return the section ``tq`` of ``inspect stats``: a few numbers, no address, no credential.

        ``scheduler`` tells whether one leads, ``None`` when the store does not answer. Times are in
        seconds. ``waiting`` was fetched and has not started; ``unsettled`` has ended and is on its
        way to the store.
        """
        reader = self._reader
        table, lease, now = reader.table, reader.lease, monotonic()
        offered = lease.announced
        return {
            "worker": reader.name,
            "namespace": reader.settings.namespace,
            "pool": reader.pool,
            "scheduler": self._asked(Look.led, None, "who leads"),
            "store_answers": reader.answered,
            "since_store_answered": round(now - reader.heard, 3),
            "lease": {
                "seconds": reader.settings.lease,
                "remaining": round(max(0.0, lease.until - now), 3),
            },
            "slots": offered.slots if offered is not None else 0,
            "ahead": offered.ahead if offered is not None else 0,
            "waiting": len(table.waiting),
            "running": len(table.running),
            "unsettled": len(table.outbox),
        }

    def scheduled(self, hostname: str) -> list[dict[str, Any]]:
        """Return the delayed tasks that this worker answers for, soonest first."""
        reader = self._reader
        offered = reader.lease.announced
        queues = offered.queues if offered is not None else ()

        def listed(look: Look) -> list[Waiting]:
            return look.waiting_delayed(look.spoken_for(reader.name, queues), LISTED)

        found: list[Waiting] = self._asked(listed, [], "delayed tasks")
        return [self._described(each, hostname) for each in found]

    def close(self) -> None:
        """Close the connection."""
        if self._look is not None:
            self._look.close()
            self._look = None

    # -- details -------------------------------------------------------------------------------

    def _listing(self, handlers: Any) -> Handler:
        def scheduled(state: Any, **arguments: Any) -> Any:
            theirs = handlers["scheduled"](state, **arguments)
            try:
                return [*theirs, *self.scheduled(state.hostname)]
            except Exception:
                log.exception("delayed tasks could not be listed")
                return theirs

        return scheduled

    def _asked(self, question: Callable[[Look], Any], otherwise: Any, what: str) -> Any:
        """Return the answer, or ``otherwise`` when the store is away."""
        if not self._reader.answered or monotonic() < self._not_before:
            log.warning("the store does not answer; inspect shows less", missing=what)
            return otherwise
        if self._look is None:
            self._look = Look.open(self._reader.settings)
        try:
            return question(self._look)
        except StoreError as error:
            self._not_before = monotonic() + HOLD_OFF
            log.warning("the store does not answer; inspect shows less", missing=what, error=error)
            return otherwise

    def _described(self, waiting: Waiting, hostname: str) -> dict[str, Any]:
        """Return a delayed task as Celery shows a request with an ETA; arguments as text."""
        task = waiting.task
        headers: dict[str, Any] = {}
        origin: dict[str, Any] = {}
        if waiting.payload is not None:
            try:
                message = envelope.decode(waiting.payload)
            except envelope.EnvelopeError as error:
                headers = {"task": f"<{error.reason}>"}
            else:
                headers = message.headers
                found = message.properties.get("delivery_info")
                origin = found if isinstance(found, dict) else {}
        return {
            "eta": datetime.fromtimestamp(task.due / 1000, self._app.timezone).isoformat(),
            "priority": task.priority,
            "request": {
                "id": task.id,
                "name": headers.get("task"),
                "args": str(headers.get("argsrepr"))[:LONGEST_REPR],
                "kwargs": str(headers.get("kwargsrepr"))[:LONGEST_REPR],
                "type": headers.get("task"),
                "hostname": hostname,
                "time_start": None,
                "acknowledged": False,
                "delivery_info": {
                    "exchange": origin.get("exchange", ""),
                    "routing_key": origin.get("routing_key", task.queue),
                    "priority": task.priority,
                    "redelivered": task.attempts > 0,
                },
                "worker_pid": None,
            },
        }
