"""What metrics cost a worker that empties a queue: off against on, scraped as Prometheus does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from bench.experiments.drain.run import Run, drain
from bench.experiments.scrape.target import PORT, scrape
from bench.harness.arms import TQArm
from bench.harness.errors import BenchError
from tq_celery.embedded import free_port

__all__ = ["drained"]


def drained(arm: TQArm, tasks: int, pool: str, every: float | None) -> Run:
    """Empty a queue of no-op tasks; scheduler and worker are scraped ``every`` s, None: off.

    Raises BenchError when the drain is not whole, or a scrape has no answer.
    """
    if every is None:
        return drain(arm, pool, tasks, envs=({PORT: "off"}, {PORT: "off"}))
    leader, worker = free_port(), free_port()
    return drain(
        arm, pool, tasks, envs=({PORT: str(leader)}, {PORT: str(worker)}),
        during=lambda: _scraped((leader, worker), every),
    )  # fmt: skip


@contextlib.contextmanager
def _scraped(ports: tuple[int, ...], every: float) -> Iterator[None]:
    """Scrape all ports every so many seconds, at once first."""
    failed: list[BenchError] = []
    over = threading.Event()

    def repeat() -> None:
        try:
            while True:
                for port in ports:
                    scrape(port)
                if over.wait(every):
                    return
        except BenchError as error:
            failed.append(error)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if failed:
        raise failed[0]
