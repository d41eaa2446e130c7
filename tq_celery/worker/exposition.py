"""What a worker exposes: the timings of its own tasks, from its main process."""

from __future__ import annotations

from time import monotonic

from tq_celery.metrics.endpoint import Endpoint, Verdict
from tq_celery.metrics.process import fill_process
from tq_celery.metrics.samples import Samples
from tq_celery.settings import Settings
from tq_celery.store.script_times import SCRIPT_TIMES
from tq_celery.worker.reader import Reader
from tq_celery.worker.timings import Timings

__all__ = ["Exposition", "open_endpoint"]


def open_endpoint(settings: Settings, reader: Reader) -> Endpoint:
    """Take the port of a worker's metrics; raises SettingsError when it is taken."""
    timings = reader.table.timings = Timings()
    SCRIPT_TIMES.keep()
    exposition = Exposition(reader, timings)
    return Endpoint(
        settings.metrics_port,
        "worker",
        fill=exposition.fill,
        healthy=exposition.healthy,
        ready=exposition.ready,
    )


class Exposition:
    """Fills a scrape and judges the process."""

    def __init__(self, reader: Reader, timings: Timings) -> None:
        self._reader = reader
        self._timings = timings

    def fill(self, samples: Samples) -> None:
        """Add everything this process exposes now."""
        reader = self._reader
        for queue, each in sorted(self._timings.queues().items()):
            samples.add_buckets("tq_queue_wait_seconds", each.wait, queue=queue)
            samples.add_buckets("tq_execution_seconds", each.execution, queue=queue)
            samples.add_buckets("tq_task_latency_seconds", each.latency, queue=queue)
        samples.add("tq_worker_slots", reader.slots)
        samples.add("tq_worker_held_deliveries", len(reader.table))
        samples.add("tq_worker_store_age_seconds", monotonic() - reader.heard)
        fill_process(samples, "worker", SCRIPT_TIMES)

    def healthy(self) -> Verdict:
        """A worker is healthy while its I/O thread goes on, whatever the store does."""
        if self._reader.finished:
            return Verdict(False, "ended: the I/O thread")
        return Verdict(True, "alive")

    def ready(self) -> Verdict:
        """A worker is ready while it holds its lease."""
        reader = self._reader
        age = monotonic() - reader.heard
        if not reader.answered or age > reader.settings.lease:
            return Verdict(False, f"not ready: the store answered last {age:.1f} s ago")
        return Verdict(True, f"ready: {reader.slots} slots")
