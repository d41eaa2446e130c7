"""Sends spans to a collector in the background, and never waits long for one that is away.

OpenTelemetry's own batch processor waits for its last export when the process ends: 30 s by
default, for a collector that is not there. Spans are worth less than a prompt end: here the last
ones have :data:`LINGER`, and what is not sent by then is lost. Memory is bounded in the same way:
when the collector does not keep up, the oldest spans go.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from time import monotonic, sleep

from opentelemetry import context
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter

__all__ = ["LINGER", "BoundedExport"]

#: Seconds that the end of a process waits for its last spans; a worker with processes of its own
#: may wait twice.
LINGER = 0.08
#: Seconds between two exports.
EVERY = 0.25
#: Spans kept while the collector is away.
ROOM = 4096
#: Spans in one export.
BATCH = 512


def _daemon(run: Callable[[], None]) -> None:
    Thread(target=run, name="tq-spans", daemon=True).start()


class BoundedExport(SpanProcessor):
    """A span processor with a thread of its own, which begins with the first span."""

    def __init__(self, exporter: SpanExporter) -> None:
        #: Starts a thread of the operating system; a green worker replaces it.
        self.start_thread: Callable[[Callable[[], None]], None] = _daemon
        self._exporter = exporter
        self._spans: deque[ReadableSpan] = deque(maxlen=ROOM)
        self._running = self._closing = False
        self._busy: set[object] = set()
        os.register_at_fork(after_in_child=self._forked)

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span; returns at once."""
        if self._closing or span.context is None or not span.context.trace_flags.sampled:
            return
        self._spans.append(span)
        if not self._running:
            self._running = True
            self.start_thread(self._run)

    def shutdown(self) -> None:
        """Send what is left, for :data:`LINGER` at most; no span is taken from now on."""
        if not self._closing:
            self._closing = True
            self.force_flush(int(LINGER * 1000))
            with suppress(Exception):
                self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what was taken; False when it took longer."""
        end = monotonic() + timeout_millis / 1000
        if self._spans:
            job = object()
            self._busy.add(job)
            self.start_thread(lambda: self._drain(job))
        while (self._spans or self._busy) and monotonic() < end:
            sleep(0.005)
        return not (self._spans or self._busy)

    def _run(self) -> None:
        while not self._closing:
            sleep(EVERY)
            if self._spans:
                self._busy.add(self)
                self._drain(self)

    def _drain(self, job: object) -> None:
        token = context.attach(context.set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        try:
            while batch := self._take():
                with suppress(Exception):  # the exporter logs what it could not send
                    self._exporter.export(batch)
        finally:
            self._busy.discard(job)
            context.detach(token)

    def _take(self) -> list[ReadableSpan]:
        batch: list[ReadableSpan] = []
        with suppress(IndexError):
            while len(batch) < BATCH:
                batch.append(self._spans.popleft())
        return batch

    def _forked(self) -> None:
        """Leave the parent's spans to the parent; its thread is not here."""
        self._spans.clear()
        self._running = False
        self._busy.clear()
