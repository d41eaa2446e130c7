"""The leader's metrics: the numbers of the namespace, from one cheap look at the store."""

from __future__ import annotations

from tq_celery.metrics.definitions import OTHER
from tq_celery.metrics.samples import Samples
from tq_celery.scheduler.tenant_series import counted, series_of
from tq_celery.states import Outcome
from tq_celery.store.accounts import slots_of
from tq_celery.store.accounts_contract import HOUR, LONGEST, Served
from tq_celery.store.gauges import Gauges, QueueGauges, TenantGauges

__all__ = ["fill_namespace"]

_LIVE = ("submitted", "delayed", "pending", "dispatched")
#: Counters of a queue by their word in the store, and what one is in the unit of the metric.
_FLOWS = {
    "admitted": ("tq_admitted_tasks_total", 1),
    "promoted": ("tq_promoted_tasks_total", 1),
    "reclaimed": ("tq_reclaimed_deliveries_total", 1),
    "returned": ("tq_returned_deliveries_total", 1),
    "due": ("tq_deadline_tasks_total", 1),
    "missed": ("tq_deadlines_missed_total", 1),
    "service": ("tq_service_seconds_total", 1e6),
}
#: Steps in which a duplicate is suppressed, by the word in the store.
_SUPPRESSED = {"repeated": "submit", "resettled": "settle"}
#: Streams whose cap may drop entries.
_CAPPED = ("results", "dead")


def fill_namespace(samples: Samples, gauges: Gauges, *, tenants: int, ttl: float) -> None:
    """Add everything whose exposer is ``leader``; ``tenants`` have series of their own."""
    for queue, each in gauges.queues.items():
        _fill_queue(samples, gauges, queue, each)
    _fill_workers(samples, gauges)
    _fill_tenants(samples, gauges, tenants)
    _fill_served(samples, gauges, tenants)
    for stream in _CAPPED:
        samples.add("tq_dropped_entries_total", gauges.count("dropped", stream), stream=stream)
    for name, value in {
        "tq_ingress_wait_seconds": _age(gauges.now, gauges.ingress_oldest),
        "tq_starved": gauges.starved,
        "tq_dead_letters": gauges.dead,
        "tq_draining_tasks": gauges.draining,
        "tq_leader_epoch": gauges.epoch,
        "tq_standby_schedulers": gauges.standbys,
        "tq_leader_lease_age_seconds": max(0.0, ttl - max(0, gauges.lease_left) / 1000),
    }.items():
        samples.add(name, float(value))
    policy, within = (gauges.config.get(each, "") for each in ("policy", "order_within"))
    samples.add("tq_policy_info", 1, policy=policy, order_within=within)


def _age(now: int, since: int) -> float:
    """Return the seconds since a moment, 0 for none; a head's time may lie in the future."""
    return max(0, now - since) / 1000 if since else 0.0


def _fill_queue(samples: Samples, gauges: Gauges, queue: str, each: QueueGauges) -> None:
    def count(word: str) -> int:
        return gauges.count(word, queue)

    settled = {str(outcome): count(outcome) for outcome in Outcome}
    live = {word: count(word) for word in _LIVE}
    missing = count("accepted") - sum(settled.values()) - sum(live.values())
    samples.add("tq_accepted_tasks_total", count("accepted"), queue=queue)
    for outcome, number in settled.items():
        samples.add("tq_settled_tasks_total", number, queue=queue, outcome=outcome)
    for word, (name, unit) in _FLOWS.items():
        samples.add(name, count(word) / unit, queue=queue)
    for word, step in _SUPPRESSED.items():
        samples.add("tq_duplicates_suppressed_total", count(word), queue=queue, step=step)
    # what workers hold is counted as dispatched by the scripts
    live["dispatched"] = max(0, live["dispatched"] - each.running)
    for word, number in {**live, "running": each.running}.items():
        samples.add(f"tq_{word}_tasks", number, queue=queue)
    serving = [w for w in gauges.workers if queue in w.queues and w.expires > gauges.now]
    for name, value in {
        "tq_missing_tasks": missing,
        "tq_oldest_wait_seconds": _age(gauges.now, each.oldest),
        "tq_longest_wait_seconds": _longest(gauges, queue) / 1000,
        "tq_waiting_tenants": each.tenants,
        "tq_gated_tenants": each.gated,
        "tq_unranked_tenants": each.unranked,
        "tq_waiting_obituaries": each.obituaries,
        "tq_queue_paused": each.paused,
        "tq_queue_workers": len(serving),
        "tq_queue_slots": sum(worker.slots for worker in serving),
    }.items():
        samples.add(name, float(value), queue=queue)


def _longest(gauges: Gauges, queue: str) -> int:
    """Return the longest wait seen in this hour or the one before, ms."""
    hour = gauges.now // HOUR
    kept = (divmod(gauges.count(f"longest{turn}", queue), LONGEST) for turn in (0, 1))
    # the next hour may have begun while the store was read; later ones are of a clock set back
    return max((wait for of, wait in kept if hour - 1 <= of <= hour + 1), default=0)


def _fill_workers(samples: Samples, gauges: Gauges) -> None:
    alive = sum(worker.expires > gauges.now for worker in gauges.workers)
    slots, busy = slots_of(gauges.workers, gauges.holding, gauges.now)
    samples.add("tq_live_workers", alive)
    samples.add("tq_lapsed_workers", len(gauges.workers) - alive)
    samples.add("tq_slots", slots)
    samples.add("tq_busy_slots", busy)
    samples.add("tq_slot_seconds_total", gauges.count("slot_ms", "offered") / 1000)
    samples.add("tq_busy_slot_seconds_total", gauges.count("slot_ms", "busy") / 1000)


def _fill_tenants(samples: Samples, gauges: Gauges, most: int) -> None:
    live = sum(gauges.count(word, queue) for queue in gauges.queues for word in _LIVE)
    in_flight = sum(gauges.count("dispatched", queue) for queue in gauges.queues)
    series = series_of(gauges.tenant, most, live, in_flight)

    def add(label: str, each: TenantGauges) -> None:
        waiting = max(0, each.live - each.in_flight)
        samples.add("tq_tenant_waiting_tasks", waiting, tenant=label)
        samples.add("tq_tenant_in_flight_tasks", each.in_flight, tenant=label)
        oldest = _age(gauges.now, each.oldest)
        samples.add("tq_tenant_oldest_wait_seconds", oldest, tenant=label)

    for label, each in series.shown.items():
        add(label, each)
        samples.add("tq_tenant_weight", each.weight, tenant=label)
        samples.add("tq_tenant_paused", float(each.paused), tenant=label)
    add("other", series.other)
    samples.add("tq_tenants", gauges.tenants)


def _fill_served(samples: Samples, gauges: Gauges, most: int) -> None:
    others = Served(*(gauges.count("other", word) for word in ("service", "waits", "waited")))
    for label, each in {**counted(gauges.served, gauges.tenant, most), OTHER: others}.items():
        samples.add("tq_tenant_service_seconds_total", each.micros / 1e6, tenant=label)
        samples.add("tq_tenant_waits_total", each.waits, tenant=label)
        samples.add("tq_tenant_wait_seconds_total", each.waited / 1000, tenant=label)
