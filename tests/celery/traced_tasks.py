"""A task that traces and sends; imported by senders and workers."""

from __future__ import annotations

from typing import Any

from opentelemetry import trace


def add_parent(app: Any) -> None:
    """Register ``parent``, which sends another task from within a span."""

    @app.tq.task(name="parent", shared=False)
    def parent() -> str:
        with trace.get_tracer("tests").start_as_current_span("inner"):
            return str(app.tasks["noop"].delay().id)
