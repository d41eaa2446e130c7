"""The worker's spans: where a task runs its trace is current, and when it is settled all is told.

See :mod:`tq_celery.tracing`. Nothing here may raise into Celery or the I/O thread: a span that
cannot be written is lost.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from celery import signals

from tq_celery.inheritance import HEADER
from tq_celery.logs import Log
from tq_celery.states import Outcome
from tq_celery.store.contract import Token
from tq_celery.store.journey import Journey, journeys
from tq_celery.store.worker import RedisWorker
from tq_celery.tracing.spans import FIELDS, Tracing, is_sampled
from tq_celery.worker.deliveries import Held
from tq_celery.worker.green import start_native

__all__ = ["Spans", "follow_tasks"]

log = Log("tq_celery.worker")

#: Attribute of a request in which the outer context waits for the task's end.
_OUTER = "tq_outer_context"
#: The instrumentation that makes a task's trace current by itself.
_CELERYS = "opentelemetry.instrumentation.celery"
#: Most tasks whose spans wait to be written.
_ROOM = 4096


class _Ended(NamedTuple):
    token: Token
    outcome: Outcome
    started: float
    finished: float
    parent: Mapping[str, Any]
    name: str
    attributes: dict[str, Any]


class Spans:
    """Gathers what ended; :meth:`note` in any thread, the rest in the I/O thread alone."""

    def __init__(self, tracing: Tracing, store: RedisWorker, worker: str) -> None:
        self._tracing, self._store, self._worker = tracing, store, worker
        self._ended: deque[_Ended] = deque(maxlen=_ROOM)
        self._read: deque[tuple[_Ended, Journey | None]] = deque(maxlen=_ROOM)

    def note(self, held: Held, outcome: Outcome, started: float, finished: float) -> None:
        """Note the end of a delivery; monotonic seconds, ``started`` 0 when it never did."""
        headers = held.request._request_dict
        if not is_sampled(headers.get(FIELDS[0])):
            return
        options = headers.get(HEADER)
        attributes = {
            "messaging.system": "tq",
            "messaging.message.id": str(headers.get("id")),
            "tq.task": str(headers.get("task")),
            "tq.tenant": str(options.get("tenant")) if isinstance(options, dict) else "",
            "tq.queue": held.delivery.token.queue,
            "tq.epoch": held.delivery.token.epoch,
            "tq.attempts": held.delivery.attempts,
        }
        parent = {each: headers.get(each) for each in FIELDS}
        self._ended.append(
            _Ended(held.delivery.token, outcome, started, finished, parent,
                   str(headers.get("task")), attributes)
        )  # fmt: skip

    def read(self) -> None:
        """Read when the noted tasks passed the scheduler; the settlement forgets it."""
        noted = []
        while self._ended:
            noted.append(self._ended.popleft())
        if not noted:
            return
        try:
            found = journeys(self._store, [each.token for each in noted])
        except Exception as error:  # noqa: BLE001 - the settlement will say that the store is away
            log.debug("a task's journey could not be read", error=error)
            found = {}
        self._read.extend((each, found.get(each.token)) for each in noted)

    def write(self, store_time: Callable[[float], float], settled: float) -> None:
        """Write the spans of what was read and is settled since, at ``settled``."""
        while self._read:
            ended, journey = self._read.popleft()
            try:
                self._tell(ended, journey, store_time, store_time(settled))
            except Exception as error:  # noqa: BLE001
                log.debug("spans could not be written", error=error)

    def _tell(
        self, ended: _Ended, journey: Journey | None,
        store_time: Callable[[float], float], settled: float,
    ) -> None:  # fmt: skip
        span, name, parent, attributes = (
            self._tracing.span, ended.name, ended.parent, ended.attributes,
        )  # fmt: skip
        if journey is not None:
            span(f"admit {name}", parent, journey.arrived, journey.admitted, attributes)
            span(f"dispatch {name}", parent, journey.admitted, journey.dispatched, attributes)
        here = {**attributes, "tq.worker": self._worker, "tq.outcome": ended.outcome.value}
        finished = store_time(ended.finished)
        if ended.started:
            span(
                f"run {name}", parent, store_time(ended.started), finished, here,
                ended.outcome.value,
            )  # fmt: skip
        span(f"settle {name}", parent, finished, settled, here)


def follow_tasks(tracing: Tracing) -> None:
    """Let what a task traces and sends belong to its trace; before the pool starts."""
    tracing.start_thread = start_native

    def begin(task: Any = None, **_: Any) -> None:
        if task is not None and not _instrumented():
            vars(task.request)[_OUTER] = tracing.enter(task.request)

    def end(task: Any = None, **_: Any) -> None:
        if task is not None:
            tracing.leave(vars(task.request).pop(_OUTER, None))

    def close(**_: Any) -> None:
        tracing.close()

    signals.task_prerun.connect(begin, weak=False, dispatch_uid="tq-tracing")
    signals.task_postrun.connect(end, weak=False, dispatch_uid="tq-tracing")
    signals.worker_process_shutdown.connect(close, weak=False, dispatch_uid="tq-tracing")


def _instrumented() -> bool:
    """Whether Celery's instrumentation is at work in this process."""
    module = sys.modules.get(_CELERYS)
    return module is not None and bool(module.CeleryInstrumentor().is_instrumented_by_opentelemetry)
