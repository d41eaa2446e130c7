"""A scheduler's exposition without a server: the numbers of the namespace are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tq_celery.metrics.samples import Samples
from tq_celery.scheduler import Scheduler
from tq_celery.scheduler.exposition import Exposition
from tq_celery.store.gauges import Gauges

__all__ = ["exposing", "scrape"]


def exposing(scheduler: Scheduler, gauges: Gauges | Callable[[], Gauges]) -> Exposition:
    """What ``scheduler`` exposes when the store holds ``gauges``."""
    return Exposition(
        scheduler.settings, scheduler.stats, scheduler.leadership, scheduler._loops,
        read=gauges if callable(gauges) else lambda: gauges,
    )  # fmt: skip


def scrape(exposition: Any) -> dict[str, float]:
    """Return the series of one scrape as a scraper reads them, ``name{labels}`` to value."""
    samples = Samples()
    exposition.fill(samples)
    body, content_type = samples.encode("")
    assert content_type.startswith("text/plain")
    lines = [line for line in body.decode().splitlines() if not line.startswith("#")]
    series = {name: float(value) for name, _, value in (each.rpartition(" ") for each in lines)}
    assert len(series) == len(lines), "a series is there twice"
    return series
