"""The spans of tasks, written with OpenTelemetry; imported only while tracing is on."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tq_celery.tracing.export import BoundedExport

__all__ = ["FIELDS", "Tracing", "is_sampled"]

#: Headers in which a trace travels.
FIELDS = ("traceparent", "tracestate")

_W3C = TraceContextTextMapPropagator()
#: Outcomes that are errors of the task.
_ERRORS = frozenset({"failed", "dead"})


def is_sampled(traceparent: object) -> bool:
    """Tell whether spans of that trace are kept: the last bit of its flags."""
    return isinstance(traceparent, str) and len(traceparent) >= 55 and traceparent[54] in "13579bdf"


class Tracing:
    """Writes spans through the application's tracer provider, or one of its own.

    An application that has set none gets one that exports with OTLP over HTTP, by the variables
    ``OTEL_*``. It is not made the application's: what that traces besides stays its business.
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._export: BoundedExport | None = None
        self._own: TracerProvider | None = None
        self._lock = Lock()
        self._provider: trace.TracerProvider | None = None
        self._tracer: Tracer | None = None
        #: How the export starts its thread; a green worker needs a real one.
        self.start_thread: Callable[[Callable[[], None]], None] | None = None

    @property
    def tracer(self) -> Tracer:
        """The tracer of whatever provider counts now: applications may set theirs late."""
        provider = trace.get_tracer_provider()
        if isinstance(provider, trace.ProxyTracerProvider):
            provider = self._own or self._make_own()
        if self._tracer is None or provider is not self._provider:
            self._provider = provider
            self._tracer = provider.get_tracer("tq_celery")
        return self._tracer

    def submit(
        self, send: Callable[..., Any], name: str, task_id: str | None, request: Any,
        tenant: bytes, options: dict[str, Any],
    ) -> Any:  # fmt: skip
        """Send within a span that the message's headers carry; ``send`` takes the options.

        The span belongs to the trace of the call's own headers, else to the current span, else to
        the task that sends. A retry brings the headers of the try before: they count last.
        """
        headers = options["headers"]
        given = {each: headers.pop(each) for each in FIELDS if each in headers}
        again = request is not None and request.id == task_id
        parent = None if again else _extract(given)
        if parent is None and not trace.get_current_span().get_span_context().is_valid:
            parent = _extract(vars(request) if request is not None else given)
        with self.tracer.start_as_current_span(
            f"submit {name}", parent, SpanKind.PRODUCER,
            {"messaging.system": "tq", "tq.task": name, "tq.tenant": _text(tenant)},
        ) as span:  # fmt: skip
            _W3C.inject(headers)
            if FIELDS[0] not in headers:  # a provider that does nothing
                headers.update(given)
            result = send(**options)
            span.set_attribute("messaging.message.id", str(result.id))
            return result

    def span(
        self, name: str, parent: Mapping[str, Any], start: float, end: float,
        attributes: Mapping[str, Any], outcome: str = "",
    ) -> None:  # fmt: skip
        """Write a span that has ended, from ms to ms, in the trace of the headers ``parent``."""
        begin = int(start * 1_000_000)
        span = self.tracer.start_span(
            name, _extract(parent),
            SpanKind.CONSUMER if outcome else SpanKind.INTERNAL, attributes, start_time=begin,
        )  # fmt: skip
        if outcome in _ERRORS:
            span.set_status(Status(StatusCode.ERROR))
        span.end(max(begin, int(end * 1_000_000)))

    def enter(self, request: Any) -> object:
        """Make the trace of a task current where it runs; returns what :meth:`leave` takes."""
        found = _extract(vars(request))
        return None if found is None else context.attach(found)

    def leave(self, token: Any) -> None:
        """End what :meth:`enter` began."""
        if token is not None:
            context.detach(token)

    def close(self) -> None:
        """Send the last spans of this process, within the time that they have."""
        if self._export is not None:
            self._export.shutdown()

    def _make_own(self) -> TracerProvider:
        named = "OTEL_SERVICE_NAME" in os.environ or f"{SERVICE_NAME}=" in os.environ.get(
            "OTEL_RESOURCE_ATTRIBUTES", ""
        )
        resource = Resource.create({} if named else {SERVICE_NAME: self._namespace})
        with self._lock:
            if self._own is None:
                own = TracerProvider(resource=resource, shutdown_on_exit=False)
                self._export = BoundedExport(OTLPSpanExporter())
                if self.start_thread is not None:
                    self._export.start_thread = self.start_thread
                own.add_span_processor(self._export)
                atexit.register(self.close)
                self._own = own
            return self._own


def _extract(headers: Mapping[str, Any]) -> Context | None:
    """Return the context in ``headers``; None where there is none that can be read."""
    carrier = {each: headers[each] for each in FIELDS if isinstance(headers.get(each), str)}
    if not carrier:
        return None
    found = _W3C.extract(carrier, Context())
    return found if trace.get_current_span(found).get_span_context().is_valid else None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
