"""The application of the worker tests, instrumented as OpenTelemetry's own documentation says."""

from __future__ import annotations

import os
from typing import Any

from celery.signals import worker_process_init
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.celery.traced_tasks import add_parent
from tests.celery.worker_tasks import build

app = build(os.environ)


add_parent(app)


@worker_process_init.connect(weak=False)
def instrument(**_: Any) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    if os.environ.get("LAB_INSTRUMENT"):
        instrumentor: Any = CeleryInstrumentor()
        instrumentor.instrument()
