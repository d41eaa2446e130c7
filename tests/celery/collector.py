"""A collector of spans for tests: OTLP over HTTP in a thread of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Seen(NamedTuple):
    """One span; times in ms."""

    name: str
    trace: str
    id: str
    parent: str
    start: float
    end: float
    service: str
    attributes: dict[str, Any]
    failed: bool


class Collector:
    """Keeps what arrives in ``spans``."""

    def __init__(self, port: int) -> None:
        self.spans: list[Seen] = []
        self.environ = {
            "TQ_TRACING": "on",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        }

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest()
        request.ParseFromString(body)
        for resource in request.resource_spans:
            of = _attributes(resource.resource.attributes)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        Seen(
                            span.name, span.trace_id.hex(), span.span_id.hex(),
                            span.parent_span_id.hex(), span.start_time_unix_nano / 1e6,
                            span.end_time_unix_nano / 1e6, str(of.get("service.name")),
                            _attributes(span.attributes), span.status.code == 2,
                        )
                    )  # fmt: skip

    def of(self, trace: str) -> dict[str, Seen]:
        """Return the spans of a trace by name."""
        return {span.name: span for span in self.spans if span.trace == trace}

    def named(self, name: str) -> list[Seen]:
        return [span for span in self.spans if span.name == name]


def _attributes(given: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in given}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.take(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(server.server_port)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
