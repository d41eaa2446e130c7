"""How a worker begins to trace; imports nothing of it while tracing is off."""

from __future__ import annotations

from typing import Any

from tq_celery.store.worker import RedisWorker
from tq_celery.worker.deliveries import DeliveryTable
from tq_celery.worker.refusal import or_end

__all__ = ["trace_ends", "trace_tasks"]


def trace_tasks(app: Any) -> None:
    """Let tasks run within their traces; called before the pool starts.

    Ends the worker with one line when tracing is on and OpenTelemetry is not installed.
    """
    with or_end():
        tracing = app.tq.tracing
    if tracing is not None:
        from tq_celery.worker.spans import follow_tasks

        follow_tasks(tracing)


def trace_ends(app: Any, table: DeliveryTable, store: RedisWorker, worker: str) -> None:
    """Have the spans written of what this worker settles."""
    if app.tq.tracing is not None:
        from tq_celery.worker.spans import Spans

        table.spans = Spans(app.tq.tracing, store, worker)
