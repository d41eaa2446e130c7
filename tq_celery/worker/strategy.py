"""From a delivery to a request in Celery's hands: what Celery's own strategy does, per task.

Celery's strategies belong to the broker's messages: they hold prefetch counts, timers for an ETA
and buckets that keep what a rate limit holds back. A scheduled task has none of these. It arrives
when it is due, and one that finds no token goes back to the scheduler as delayed.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from time import monotonic
from typing import Any

from celery import signals
from celery.app import trace as celery_trace
from celery.utils.imports import symbol_by_name
from celery.worker import state
from kombu.exceptions import DecodeError
from kombu.serialization import prepare_accept_content

from tq_celery.logs import Log
from tq_celery.worker.chords import claim_left
from tq_celery.worker.declared import scheduled_view
from tq_celery.worker.deliveries import DeliveryTable, Held
from tq_celery.worker.lines import task_fields
from tq_celery.worker.message import BadMessage, StreamMessage, open_delivery
from tq_celery.worker.obituaries import UNKNOWN_TASK
from tq_celery.worker.request import request_class
from tq_celery.worker.tokens import Turns

__all__ = ["Strategies"]

log = Log("tq_celery.worker")

#: The words of Celery's line, which people look for; without the body that it shows.
UNREGISTERED = "Received unregistered task of type"

Strategy = Callable[[StreamMessage, Held], None]


class Strategies:
    """Hands deliveries to one Consumer; made anew for each of its starts."""

    def __init__(self, consumer: Any, table: DeliveryTable, *, in_process: bool) -> None:
        self._consumer = consumer
        self._table = table
        self._in_process = in_process
        self._app = consumer.app
        self._accept = prepare_accept_content(self._app.conf.accept_content)
        self._by_name: dict[str, Strategy] = {}
        self._turns: defaultdict[str, Turns] = defaultdict(Turns)

    def hand_over(self, held: Held) -> None:
        """Give ``held`` to Celery, or settle why not. Never raises an ``Exception``."""
        table = self._table
        try:
            message = open_delivery(held.delivery, self._accept)
        except BadMessage as bad:
            if table.claim(held):
                log.error("a delivery is no task message and was buried", reason=bad.args[0])
                table.bury(held, str(bad))
            return
        name = message.headers["task"]
        try:
            strategy = self._by_name.get(name)
            if strategy is None:
                task = self._app.tasks.get(name)
                if task is None:
                    self._unknown(held, message, name)
                    return
                strategy = self._by_name[name] = self._strategy(task)
            if table.hand_over(held, message.headers["id"]):
                strategy(message, held)
        except Exception:
            log.exception("handing over a delivery failed", **task_fields(message.headers))
            if held in table.waiting or held in table.running:
                table.give_back(held, counted=True, delay=1000)

    def _unknown(self, held: Held, message: StreamMessage, name: str) -> None:
        """Bury what is not registered here, log it, and signal it as Celery does.

        The obituary writes the failure, with chord and errbacks; Celery's own handler knows neither
        and would write it a second time.
        """
        if not self._table.claim(held):
            return
        self._table.bury(held, f"{UNKNOWN_TASK}{name}")
        log.error(UNREGISTERED, queue=held.delivery.token.queue, **task_fields(message.headers))
        signals.task_unknown.send(
            sender=self._consumer, message=message, exc=KeyError(name), name=name,
            id=message.headers["id"],
        )  # fmt: skip

    def _invalid(self, held: Held, message: StreamMessage, error: Exception) -> None:
        """Bury what cannot become a request, log it, and signal it as Celery does."""
        if not self._table.claim(held):
            return
        self._table.bury(held, f"invalid task message: {error!r}")
        # Celery's own lines show the body, and with it the arguments.
        log.error("received an invalid task message", error=error, **task_fields(message.headers))
        if not isinstance(error, DecodeError):
            signals.task_rejected.send(sender=self._consumer, message=message, exc=error)

    def _strategy(self, task: Any) -> Strategy:
        consumer, app, table = self._consumer, self._app, self._table
        view = scheduled_view(task)
        early = not view.acks_late
        eventer = consumer.event_dispatcher
        hostname = consumer.hostname
        trace = (
            celery_trace.fast_trace_task if app.use_fast_trace_task else celery_trace.trace_task_ret
        )
        request_cls: Any = request_class(
            symbol_by_name(task.Request), view, table, consumer.pool, hostname, eventer, app,
            in_process=self._in_process, trace=trace,
        )  # fmt: skip
        connection_errors = consumer.connection_errors
        sends_events = eventer and eventer.enabled and task.send_events
        limited = not consumer.disable_rate_limits
        task_name = task.name
        received = signals.task_received
        handle = consumer.on_task_request
        callbacks = consumer.on_task_message
        does_info = logging.getLogger("celery.worker.strategy").isEnabledFor(logging.INFO)

        def strategy(message: StreamMessage, held: Held) -> None:
            if early:
                # settled when it starts: by the time it sends a retry, its token is spent
                message.headers.pop("tq_token", None)
            try:
                request = request_cls(
                    message, app=app, hostname=hostname, eventer=eventer, task=view,
                    connection_errors=connection_errors, body=message.body,
                    headers=message.headers, decoded=False, utc=True,
                )  # fmt: skip
                _check_time_limits(request.time_limits)
            except Exception as error:  # noqa: BLE001 - headers and body are the sender's
                self._invalid(held, message, error)
                return
            request.tq_held = held
            held.request = request
            if does_info:
                _log_received(request)
            if held.delivery.revoked:
                # by the store's memory: this worker may have heard no broadcast
                state.revoked.add(request.id)
            if request.tq_suspect():
                if not table.claim(held) or request.revoked():
                    return
                table.unclaim(held)
            if held.delivery.attempts and _waits_for_claim(table, held, task.backend, request):
                return
            if received.receivers:
                received.send(sender=consumer, request=request)
            if sends_events:
                _send_received(eventer, request)
            if limited:
                bucket = consumer.task_buckets[task_name]
                away = 0 if bucket is None else self._turns[task_name].ask(bucket, monotonic())
                if away:
                    if table.claim(held):
                        table.give_back(held, delay=away)
                    return
            state.task_reserved(request)
            held.reserved = True
            for callback in callbacks:
                callback(request)
            handle(request)

        return strategy


def _waits_for_claim(table: DeliveryTable, held: Held, backend: Any, request: Any) -> bool:
    """Give back what runs again while its chord's body is somebody else's to send."""
    left = claim_left(backend, request)
    if left and table.claim(held):
        table.give_back(held, delay=left)
    return left > 0


def _check_time_limits(limits: Any) -> None:
    """Raise ``ValueError`` for what the pool would choke on after the task was started."""
    hard, soft = limits
    for limit in (hard, soft):
        if limit is not None and not isinstance(limit, (int, float)):
            raise ValueError(f"time limit {limit!r} is not a number")


def _log_received(request: Any) -> None:
    context = {
        "id": request.id,
        "name": request.name,
        "args": request.argsrepr,
        "kwargs": request.kwargsrepr,
        "eta": request.eta,
    }
    logging.getLogger("celery.worker.strategy").info(
        celery_trace.LOG_RECEIVED,
        context,
        extra={"data": context, **task_fields(request.request_dict)},
    )


def _send_received(eventer: Any, request: Any) -> None:
    eventer.send(
        "task-received",
        uuid=request.id,
        name=request.name,
        args=request.argsrepr,
        kwargs=request.kwargsrepr,
        root_id=request.root_id,
        parent_id=request.parent_id,
        retries=request.request_dict.get("retries", 0),
        eta=request.eta and request.eta.isoformat(),
        expires=request.expires and request.expires.isoformat(),
    )
