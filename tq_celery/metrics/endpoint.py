"""The HTTP endpoint: ``/metrics``, ``/healthz`` and ``/readyz``, in the process they speak of.

``/healthz`` answers 200 while the process works and should be let alone, 503 when only a restart
helps. ``/readyz`` answers 200 when it does what it is there for; a standby is ready. Both say in a
line of text what they found. A process that was forked from this one keeps no hold on the port.
"""

from __future__ import annotations

import errno
import os
import socket
import weakref
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any, ClassVar, NamedTuple

from tq_celery.errors import SettingsError
from tq_celery.logs import Log
from tq_celery.metrics.samples import Samples

__all__ = ["DEFAULT_PORTS", "Endpoint", "Verdict"]

#: The ports that ``auto`` tries first, by what the process is.
DEFAULT_PORTS = {"scheduler": 9101, "worker": 9102}
#: Seconds a client may take for its request.
PATIENCE = 5.0

log = Log("tq_celery.metrics")


class Verdict(NamedTuple):
    """Whether all is well, and a line that says so."""

    good: bool
    line: str


class _Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True
    block_on_close = False
    # A port that somebody listens on is refused all the same; this is for connections that linger.
    allow_reuse_address = True
    #: Those of this process, for its forks.
    open: ClassVar[weakref.WeakSet[_Server]] = weakref.WeakSet()

    def __init__(self, port: int, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        super().__init__(("", port), _Handler)
        _Server.open.add(self)

    def server_bind(self) -> None:
        # without the look-up of the host's name that HTTPServer makes
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "tq", self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a scrape was cut off")


def _close_in_child() -> None:
    for server in list(_Server.open):
        server.socket.close()


os.register_at_fork(after_in_child=_close_in_child)


class Endpoint:
    """Serves one process; ``fill`` is called for each scrape, the verdicts for each question.

    ``port`` is the setting: a number, ``auto`` or ``off``. The constructor takes the port and
    raises SettingsError when somebody else has it; :meth:`start` begins to answer.
    """

    def __init__(
        self,
        port: int | str,
        role: str,
        *,
        fill: Callable[[Samples], None],
        healthy: Callable[[], Verdict],
        ready: Callable[[], Verdict],
    ) -> None:
        self.role = role
        self.fill = fill
        self.verdicts = {"/healthz": healthy, "/readyz": ready}
        self._server = self._listen(port)

    @property
    def port(self) -> int:
        """The port it listens on; 0 when it is off."""
        return self._server.server_port if self._server is not None else 0

    def start(self) -> None:
        """Answer in a thread."""
        if self._server is None:
            return
        Thread(target=self.serve, name="tq-metrics", daemon=True).start()
        log.info("metrics are served", role=self.role, port=self.port)

    def serve(self) -> None:
        """Answer in this thread until :meth:`stop`."""
        if self._server is not None:
            self._server.serve_forever(poll_interval=0.2)

    def stop(self) -> None:
        """Give the port back; answers under way may be cut off."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """Return the body of ``/metrics`` and its content type."""
        samples = Samples()
        self.fill(samples)
        return samples.encode(accept)

    def _listen(self, port: int | str) -> _Server | None:
        if port == "off":
            return None
        if port == "auto":
            try:
                return _Server(DEFAULT_PORTS[self.role], self)
            except OSError:
                return _Server(0, self)
        try:
            return _Server(int(port), self)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            why = "is taken" if taken else f"cannot be opened: {error.strerror}"
            raise SettingsError(
                "tq_metrics_port",
                port,
                f"a port that is free ({port} {why}), 'auto' or 'off'; TQ_METRICS_PORT sets it "
                "for one process",
            ) from error


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = PATIENCE
    server_version = "tq"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        endpoint = self.server.endpoint
        if path == "/metrics":
            try:
                body, content_type = endpoint.metrics(self.headers.get("Accept", ""))
            except Exception:
                log.exception("a scrape failed")
                self._answer(500, b"the scrape failed; the log says why\n")
                return
            self._answer(200, body, content_type)
        elif path in endpoint.verdicts:
            good, line = endpoint.verdicts[path]()
            self._answer(200 if good else 503, f"{line}\n".encode())
        else:
            self._answer(404, b"ask for /metrics, /healthz or /readyz\n")

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    def _answer(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Write no line for each scrape."""
