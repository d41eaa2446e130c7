"""What a scheduler exposes: the namespace while it leads, itself always."""

from __future__ import annotations

import pytest

from tests.unit.scheduler.exposing import exposing, scrape
from tests.unit.scheduler.support import Bench
from tq_celery.errors import StoreUnavailableError
from tq_celery.metrics.samples import Samples
from tq_celery.store.accounts_contract import Served
from tq_celery.store.contract import WorkerAnnouncement
from tq_celery.store.gauges import Gauges, QueueGauges, TenantGauges

GAUGES = Gauges(
    now=100_000,
    config={"policy": "wfq", "order_within": "arrival"},
    epoch=7,
    lease_left=1_500,
    ingress_oldest=99_000,
    dead=3,
    starved=True,
    counters={
        "accepted:q": 20, "completed:q": 6, "failed:q": 1, "submitted:q": 1, "delayed:q": 2,
        "pending:q": 6, "dispatched:q": 4, "dropped:results": 5,
        "admitted:q": 16, "promoted:q": 2, "reclaimed:q": 3, "returned:q": 1, "repeated:q": 5,
        "resettled:q": 6, "due:q": 4, "missed:q": 1, "service:q": 2_500_000,
        "other:service": 500_000, "other:waits": 3, "other:waited": 4_500,
        "longest0:q": 7_000, "longest1:q": 0,
        "slot_ms:offered": 80_000, "slot_ms:busy": 61_000,
    },
    served={
        b"acme": Served(2_000_000, 6, 12_000, 50_000, shown=1),
        b"globex": Served(300_000, 1, 0, 50_000, shown=0),
    },
    queues={"q": QueueGauges(running=3, oldest=40_000), "idle": QueueGauges(paused=True)},
    tenants=2,
    tenant={b"acme": TenantGauges(9, 4, 2.0, oldest=40_000), b"globex": TenantGauges(4, 0)},
    workers=[
        WorkerAnnouncement("w1", ("q", "idle"), 4, 0, expires=130_000),
        WorkerAnnouncement("w2", ("q",), 2, 0, expires=99_999),
    ],
    holding={"w1": 3, "w2": 9},
)  # fmt: skip


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.run()
    assert bench.scheduler.leading
    return bench


def test_the_leader_exposes_the_namespace(bench: Bench) -> None:
    seen = scrape(exposing(bench.scheduler, GAUGES))
    expected = {
        'tq_accepted_tasks_total{queue="q"}': 20,
        'tq_settled_tasks_total{outcome="completed",queue="q"}': 6,
        'tq_settled_tasks_total{outcome="failed",queue="q"}': 1,
        'tq_settled_tasks_total{outcome="dead",queue="q"}': 0,
        'tq_admitted_tasks_total{queue="q"}': 16,
        'tq_promoted_tasks_total{queue="q"}': 2,
        'tq_reclaimed_deliveries_total{queue="q"}': 3,
        'tq_returned_deliveries_total{queue="q"}': 1,
        'tq_duplicates_suppressed_total{queue="q",step="submit"}': 5,
        'tq_duplicates_suppressed_total{queue="q",step="settle"}': 6,
        'tq_deadline_tasks_total{queue="q"}': 4,
        'tq_deadlines_missed_total{queue="q"}': 1,
        'tq_service_seconds_total{queue="q"}': 2.5,
        'tq_service_seconds_total{queue="idle"}': 0,
        'tq_submitted_tasks{queue="q"}': 1,
        'tq_delayed_tasks{queue="q"}': 2,
        'tq_pending_tasks{queue="q"}': 6,
        'tq_dispatched_tasks{queue="q"}': 1,
        'tq_running_tasks{queue="q"}': 3,
        'tq_missing_tasks{queue="q"}': 0,
        'tq_oldest_wait_seconds{queue="q"}': 60,
        'tq_oldest_wait_seconds{queue="idle"}': 0,
        'tq_longest_wait_seconds{queue="q"}': 7,
        'tq_longest_wait_seconds{queue="idle"}': 0,
        'tq_queue_paused{queue="idle"}': 1,
        'tq_queue_workers{queue="q"}': 1,
        'tq_queue_slots{queue="q"}': 4,
        'tq_dropped_entries_total{stream="results"}': 5,
        "tq_ingress_wait_seconds": 1,
        "tq_live_workers": 1,
        "tq_lapsed_workers": 1,
        "tq_slots": 4,
        "tq_busy_slots": 3,
        "tq_slot_seconds_total": 80,
        "tq_busy_slot_seconds_total": 61,
        "tq_starved": 1,
        "tq_dead_letters": 3,
        "tq_leader_epoch": 7,
        "tq_leader_lease_age_seconds": 0.5,
        'tq_policy_info{order_within="arrival",policy="wfq"}': 1,
        'tq_tenant_waiting_tasks{tenant="acme"}': 5,
        'tq_tenant_in_flight_tasks{tenant="acme"}': 4,
        'tq_tenant_oldest_wait_seconds{tenant="acme"}': 60,
        'tq_tenant_weight{tenant="acme"}': 2,
        'tq_tenant_service_seconds_total{tenant="acme"}': 2,
        'tq_tenant_waits_total{tenant="acme"}': 6,
        'tq_tenant_wait_seconds_total{tenant="acme"}': 12,
        'tq_tenant_service_seconds_total{tenant="globex"}': None,
        'tq_tenant_service_seconds_total{tenant="other"}': 0.5,
        'tq_tenant_waits_total{tenant="other"}': 3,
        'tq_tenant_wait_seconds_total{tenant="other"}': 4.5,
        'tq_tenant_waiting_tasks{tenant="globex"}': 4,
        'tq_tenant_in_flight_tasks{tenant="globex"}': 0,
        'tq_tenant_waiting_tasks{tenant="other"}': 0,
        "tq_scheduler_is_leader": 1,
        "tq_scheduler_namespace_read": 1,
    }
    assert {name: seen.get(name) for name in expected} == expected


def test_a_standby_is_ready_and_exposes_nothing_of_the_namespace(bench: Bench) -> None:
    """Of two schedulers one exposes the namespace: nothing counts twice."""
    other = bench.another()
    other.run_once()
    exposition = exposing(other, GAUGES)
    seen = scrape(exposition)
    assert exposition.ready() == (True, "ready: standby")
    assert seen["tq_scheduler_is_leader"] == seen["tq_scheduler_epoch"] == 0
    assert not {
        name
        for name in seen
        if not name.startswith(("tq_scheduler", "tq_loop", "tq_build", "tq_script"))
    }


def test_a_term_that_ends_during_the_scrape_shows_nothing(bench: Bench) -> None:
    """Seen to fail without the second look at the term."""

    def read() -> Gauges:
        bench.scheduler.leadership.end()
        return GAUGES

    seen = scrape(exposing(bench.scheduler, read))
    assert seen["tq_scheduler_is_leader"] == seen["tq_scheduler_namespace_read"] == 0
    assert not any(name.startswith("tq_accepted") for name in seen)


def test_a_server_that_does_not_answer_leaves_the_rest_of_the_scrape(bench: Bench) -> None:
    def read() -> Gauges:
        raise StoreUnavailableError("metrics", "away")

    seen = scrape(exposing(bench.scheduler, read))
    assert seen["tq_scheduler_is_leader"] == 1
    assert seen["tq_scheduler_namespace_read"] == 0
    assert seen['tq_loop_rounds_total{loop="dispatch"}'] == 1


def test_ready_while_it_reaches_the_store(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    exposition = exposing(bench.scheduler, GAUGES)
    assert exposition.ready() == (True, "ready: leading, epoch 1")
    election = bench.scheduler.stats.loop("leader")
    election.last_success -= 2 * bench.settings.leader_ttl + 3
    election.last_error = "StoreUnavailableError: away"
    assert exposition.ready() == (False, "not ready: StoreUnavailableError: away")
    other = bench.another()
    # its round has not ended yet
    monkeypatch.setattr(bench.store, "await_succession", lambda timeout: True)
    other._election._run_for_lease()
    assert exposing(other, GAUGES).ready() == (True, "ready: standby")
    fresh = bench.another()
    assert exposing(fresh, GAUGES).ready().line == "not ready: the store has not answered yet"


def test_healthy_while_every_loop_has_its_thread() -> None:
    bench = Bench()
    exposition = exposing(bench.scheduler, GAUGES)
    assert not exposition.healthy().good
    bench.scheduler.start()
    try:
        assert exposition.healthy() == (True, "alive")
        bench.scheduler._reclaim.stop()
        assert bench.scheduler._reclaim.join(5)
        assert exposition.healthy() == (False, "ended: reclaim")
    finally:
        bench.scheduler.stop()


def test_a_refused_write_is_counted(bench: Bench) -> None:
    bench.submit()
    bench.store.ns.fence = 99
    bench.run()
    assert scrape(exposing(bench.scheduler, GAUGES))["tq_scheduler_fenced_writes_total"] >= 1


def test_a_loop_that_never_succeeded_is_as_old_as_the_process() -> None:
    bench = Bench()
    bench.store.failures["elect"] = StoreUnavailableError("elect", "away")
    bench.run()
    samples = Samples()
    exposing(bench.scheduler, GAUGES).fill(samples)
    seen = scrape(exposing(bench.scheduler, GAUGES))
    assert 0 <= seen['tq_loop_last_success_age_seconds{loop="leader"}'] < 60
    assert seen['tq_loop_failures_total{loop="leader"}'] == 1


HOUR, DEEP = 3_600_000, 10**10


@pytest.mark.parametrize(
    "now, kept, longest",
    [
        (HOUR * 490_000, {}, 0),
        (HOUR * 490_000, {"longest0:q": 490_000 * DEEP + 7_000}, 7),
        (HOUR * 490_001, {"longest0:q": 490_000 * DEEP + 7_000}, 7),
        (HOUR * 490_001, {"longest0:q": 490_000 * DEEP, "longest1:q": 490_001 * DEEP + 8}, 0.008),
        (HOUR * 490_002, {"longest0:q": 490_000 * DEEP + 7_000}, 0),
        (HOUR * 490_000, {"longest1:q": 490_001 * DEEP + 7_000}, 7),
        (HOUR * 490_000, {"longest0:q": 490_002 * DEEP + 7_000}, 0),
    ],
)  # fmt: skip
def test_the_longest_wait_is_of_this_hour_or_the_last(
    bench: Bench, now: int, kept: dict[str, int], longest: float
) -> None:
    gauges = Gauges(now=now, counters=kept, queues={"q": QueueGauges()})
    seen = scrape(exposing(bench.scheduler, gauges))
    assert seen['tq_longest_wait_seconds{queue="q"}'] == longest
