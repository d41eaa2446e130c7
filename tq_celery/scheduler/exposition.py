"""What a scheduler process exposes: itself always, the namespace while it leads.

Two schedulers never expose the namespace at once for longer than the store lets two believe that
they lead: a scrape begins and ends with a look at the term, and what was read under a term that
ended meanwhile is not shown.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import Protocol

from tq_celery.errors import StoreError
from tq_celery.logs import Log
from tq_celery.metrics.endpoint import Endpoint, Verdict
from tq_celery.metrics.process import fill_process
from tq_celery.metrics.samples import Samples
from tq_celery.scheduler.leader import Leadership
from tq_celery.scheduler.namespace_metrics import fill_namespace
from tq_celery.scheduler.stats import LoopStats, SchedulerStats
from tq_celery.settings import Settings
from tq_celery.store.client import connect
from tq_celery.store.gauges import Gauges, read_gauges
from tq_celery.store.keys import Keys
from tq_celery.store.script_times import SCRIPT_TIMES

__all__ = ["Exposition", "open_endpoint"]

#: Seconds one reply of the store may take during a scrape.
PATIENCE = 2.0
#: Seconds by which the election's round may be late before the process is not ready.
LATE = 2.0

log = Log("tq_celery.metrics")


class Thread(Protocol):
    """A loop, as far as its health goes."""

    name: str
    stats: LoopStats

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""


def open_endpoint(
    settings: Settings, stats: SchedulerStats, leadership: Leadership, loops: Sequence[Thread]
) -> Endpoint:
    """Take the port of a scheduler's metrics; raises SettingsError when it is taken."""
    client = connect(settings.url, timeout=PATIENCE)
    keys = Keys(settings.namespace)
    exposition = Exposition(
        settings, stats, leadership, loops, read=lambda: read_gauges(client, keys)
    )
    SCRIPT_TIMES.keep()
    return Endpoint(
        settings.metrics_port,
        "scheduler",
        fill=exposition.fill,
        healthy=exposition.healthy,
        ready=exposition.ready,
    )


class Exposition:
    """Fills a scrape and judges the process; ``read`` returns the numbers of the namespace."""

    def __init__(
        self,
        settings: Settings,
        stats: SchedulerStats,
        leadership: Leadership,
        loops: Sequence[Thread],
        *,
        read: Callable[[], Gauges],
    ) -> None:
        self._settings = settings
        self._stats = stats
        self._leadership = leadership
        self._loops = loops
        self._read = read
        self._began = monotonic()
        # one scrape at a time: they share a connection, and reading twice at once helps nobody
        self._reading = Lock()

    def fill(self, samples: Samples) -> None:
        """Add everything this process exposes now."""
        read = False
        epoch = self._leadership.epoch()
        if epoch:
            gauges = self._gauges()
            if self._leadership.epoch() != epoch:
                epoch = 0
            elif gauges is not None:
                read = True
                settings = self._settings
                fill_namespace(
                    samples, gauges, tenants=settings.metrics_tenants, ttl=settings.leader_ttl
                )
        samples.add("tq_scheduler_is_leader", float(bool(epoch)))
        samples.add("tq_scheduler_epoch", epoch)
        samples.add("tq_scheduler_ready", float(self.ready().good))
        samples.add("tq_scheduler_namespace_read", float(read))
        self._fill_own(samples)
        fill_process(samples, "scheduler", SCRIPT_TIMES)

    def healthy(self) -> Verdict:
        """A scheduler is healthy while every loop has its thread; they end only by its stop."""
        dead = [loop.name for loop in self._loops if not loop.alive]
        if dead:
            return Verdict(False, f"ended: {', '.join(dead)}")
        return Verdict(True, "alive")

    def ready(self) -> Verdict:
        """A scheduler is ready while it runs for the lease or holds it; a standby is ready."""
        election = self._stats.loop("leader")
        if election.age > 2 * self._settings.leader_ttl + LATE:
            why = election.last_error or "the store has not answered yet"
            return Verdict(False, f"not ready: {why}")
        epoch = self._leadership.epoch()
        return Verdict(True, f"ready: leading, epoch {epoch}" if epoch else "ready: standby")

    def _gauges(self) -> Gauges | None:
        with self._reading:
            try:
                return self._read()
            except (StoreError, ValueError, struct.error) as error:  # away, or not written by us
                log.warning("the numbers of the namespace cannot be read", error=str(error))
                return None

    def _fill_own(self, samples: Samples) -> None:
        stats = self._stats
        for name, value in {
            "terms": stats.terms,
            "depositions": stats.depositions,
            "fenced_writes": sum(each.fenced for each in stats.loops.values()),
            "admitted": stats.admitted,
            "promoted": stats.promoted,
            "dispatched": stats.dispatched,
            "reranked": stats.reranked,
            "reclaimed": stats.reclaimed,
            "orphans": stats.orphans,
            "buried": stats.buried + stats.buried_delayed,
        }.items():
            samples.add(f"tq_scheduler_{name}_total", value)
        for loop, each in sorted(stats.loops.items()):
            samples.add("tq_loop_rounds_total", each.rounds, loop=loop)
            samples.add("tq_loop_failures_total", each.failures, loop=loop)
            # one that has never succeeded has failed for as long as the process runs
            age = min(each.age, monotonic() - self._began)
            samples.add("tq_loop_last_success_age_seconds", age, loop=loop)
