"""Who claims to lead, by the schedulers' own metrics; sampled while a cluster is tormented."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection, HTTPException
from types import TracebackType
from typing import Self

from bench.harness.errors import BenchError

__all__ = ["Watch", "claims", "read"]

#: Seconds a scrape may take; a frozen scheduler answers none.
PATIENCE = 0.5

#: Metrics of one scheduler by name, those without labels; None when it does not answer.
Metrics = Mapping[str, float] | None


def read(port: int) -> Metrics:
    """Scrape the scheduler at ``port``; None when it does not answer in time."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        except (OSError, HTTPException):
            return None
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name and name[0] != "#" and "{" not in name:
            found[name] = float(value)
    return found


def _term(metrics: Metrics) -> float:
    """Return the epoch under which a scheduler claims to lead, 0 when it does not."""
    if metrics is None or not metrics.get("tq_scheduler_is_leader"):
        return 0
    return metrics["tq_scheduler_epoch"]


def claims(ports: Sequence[int], scrape: Callable[[int], Metrics] = read) -> int:
    """Return how many claim to lead at one moment.

    Scrapes follow each other, and between two of them the leader may change. So where several claim
    it, each but the last is asked again: it led meanwhile only if it still does in the same term.
    """
    first = {port: _term(scrape(port)) for port in ports}
    leading = [port for port in ports if first[port]]
    if len(leading) < 2:
        return len(leading)
    return 1 + sum(_term(scrape(port)) == first[port] for port in leading[:-1])


class Watch:
    """Samples the schedulers of ``ports()`` every ``pause`` seconds within the ``with`` block."""

    def __init__(self, ports: Callable[[], Sequence[int]], pause: float) -> None:
        self._ports, self._pause = ports, pause
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")
        self._lock = threading.Lock()
        self._most = self._samples = 0
        self._failed: Exception | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def take(self) -> tuple[int, int]:
        """Return the most leaders at one moment, and the samples, since the last call.

        Raises BenchError when the sampling has failed.
        """
        with self._lock:
            if self._failed is not None:
                raise BenchError(f"the watch over the leaders failed: {self._failed!r}")
            found = self._most, self._samples
            self._most = self._samples = 0
        return found

    def _run(self) -> None:
        while not self._over.wait(self._pause):
            try:
                number = claims(self._ports())
            except Exception as error:  # noqa: BLE001 - raised by the next call of `take`
                self._failed = error
                return
            with self._lock:
                self._most = max(self._most, number)
                self._samples += 1
