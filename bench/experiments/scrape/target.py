"""A process that answers scrapes: its port, and one scrape of it."""

from __future__ import annotations

import http.client
import time
from dataclasses import dataclass

from bench.harness import cluster
from bench.harness.arms import TQArm
from bench.harness.errors import BenchError
from bench.harness.process import Process, until

__all__ = ["PORT", "Scrape", "scheduler", "scrape"]

#: Environment variable with the port.
PORT = "TQ_METRICS_PORT"
#: Seconds a scrape may take.
PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Scrape:
    """One answer: seconds from the request to its last byte, and the body."""

    seconds: float
    body: str


def scrape(port: int) -> Scrape:
    """Scrape as Prometheus does; raises BenchError when there is no answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    started = time.perf_counter()
    try:
        connection.request("GET", "/metrics")
        reply = connection.getresponse()
        body = reply.read()
        seconds = time.perf_counter() - started
    except OSError as error:
        raise BenchError(f"port {port} does not answer a scrape: {error}") from error
    finally:
        connection.close()
    if reply.status != 200:
        raise BenchError(f"port {port} answers a scrape with {reply.status}")
    return Scrape(seconds, body.decode())


def scheduler(arm: TQArm, port: int) -> Process:
    """Start a scheduler that answers on ``port``, and wait until it leads."""
    process = cluster.scheduler(arm, env={PORT: str(port)})
    key = f"tq:{{{arm.namespace}}}:leader"

    def leads() -> bool:
        process.check()
        return bool(arm.server.client.exists(key))

    try:
        until(leads, "a leader", 30)
    except BenchError:
        process.stop()
        raise
    return process
