"""The numbers for metrics: what a full look finds, in few round trips, whatever there is."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.store.contract.steps import admit_all, complete, submit, task
from tests.waiting import BUSY
from tq_celery.metrics.samples import Samples
from tq_celery.scheduler.namespace_metrics import fill_namespace
from tq_celery.scheduler.tenant_series import record_changes
from tq_celery.states import Outcome
from tq_celery.store.contract import MAX_BATCH, Limits, WorkerAnnouncement
from tq_celery.store.gauges import Gauges, TenantGauges, read_gauges
from tq_celery.store.inspect import Inspector
from tq_celery.store.redis_store import RedisStore

Read = Callable[[], Gauges]


@pytest.fixture
def read(store: RedisStore) -> Read:
    """Look at a namespace under fair sharing that ``me`` leads."""
    store.seed(store.settings)
    store.elect("me", 60_000)
    return lambda: read_gauges(store.client, store.keys)


def series(gauges: Gauges, tenants: int = 20) -> dict[str, float]:
    """Return the leader's series with their values."""
    samples = Samples()
    fill_namespace(samples, gauges, tenants=tenants, ttl=2.0)
    lines = samples.encode("")[0].decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def test_an_empty_namespace(store: RedisStore) -> None:
    found = read_gauges(store.client, store.keys)
    assert (found.queues, found.tenant, found.workers) == ({}, {}, [])
    assert (found.lease_left, found.epoch, found.starved) == (-2, 0, False)
    assert series(found)["tq_tenants"] == 0


def test_of_very_many_settings_gauges_and_counters_show_the_same(
    store: RedisStore, read: Read
) -> None:
    """Seen to fail while the accounts read fewer settings than a scrape does."""
    weights: dict[Any, Any] = {f"tenant-{secrets.token_hex(6)}": 2.0 for _ in range(1_500)}
    store.client.hset(store.keys.name("weights"), mapping=weights)
    accounts = store.accounts()
    changes = list(record_changes(accounts, 20).items())
    for start in range(0, len(changes), MAX_BATCH):
        part = dict(changes[start : start + MAX_BATCH])
        store.account(1, accounts.slots, accounts.busy, 10_000, part)
    labels: dict[str, set[str]] = {"tq_tenant_weight": set(), "tq_tenant_waits_total": set()}
    for each in series(read()):
        name, _, label = each.partition("{")
        labels.setdefault(name, set()).add(label)
    assert len(labels["tq_tenant_weight"]) == 1_000
    assert labels["tq_tenant_waits_total"] == labels["tq_tenant_weight"] | {'tenant="other"}'}


def test_they_are_what_a_full_look_finds(store: RedisStore, read: Read) -> None:
    submit(store, *(task(f"a{n}", "acme") for n in range(5)), task("g", "globex", "low"))
    admit_all(store)
    submit(store, task("late", "acme", delay=60_000), task("new", "initech"))
    store.set_weight(b"acme", 2.0)
    store.renew(WorkerAnnouncement("w", ("q", "low"), 3, 0), 30_000)
    store.dispatch(1, ("q", "low"), 3, 100)
    store.elect("another", 60_000)
    first, *_ = store.read("w", {"q": 2}, 0)
    assert store.complete("w", [complete(first.token, Outcome.FAILED)]) == [True]

    found, whole = read(), Inspector(store.client, store.keys).overview()

    for view in whole.queues:
        for word in ("submitted", "delayed", "pending"):
            assert found.count(word, view.queue) == getattr(view, word), (view.queue, word)
        each = found.queues[view.queue]
        assert (each.running, each.tenants, each.gated) == (view.running, view.tenants, view.gated)
        assert found.count("failed", view.queue) == view.totals["failed"]
    assert found.ingress_oldest == whole.oldest
    assert (found.dead, found.draining, found.starved) == (0, 0, whole.starved)
    assert found.standbys == len(whole.leader.standbys) == 1
    assert found.holding == {"w": 1}
    assert 0 < found.lease_left <= 60_000
    assert found.tenants == 3
    for tenant in whole.tenants:
        mine = found.tenant[tenant.tenant]
        assert (mine.live, mine.in_flight) == (tenant.live, tenant.running)
        assert mine.weight == tenant.weight
    names = series(found)
    assert names['tq_settled_tasks_total{outcome="failed",queue="q"}'] == 1
    assert names['tq_missing_tasks{queue="q"}'] == names['tq_missing_tasks{queue="low"}'] == 0
    assert names['tq_delayed_tasks{queue="q"}'] == names['tq_submitted_tasks{queue="q"}'] == 1


def test_the_oldest_waits_of_queues_and_tenants(store: RedisStore, read: Read) -> None:
    """Tenants that are paused wait too, although they compete for nothing."""
    now = read().now
    submit(store, task("a", "acme"), task("a2", "acme"), task("g", "globex"), task("p", "paused"))
    admit_all(
        store, arrivals=[(now - 9_000, 1), (now - 8_000, 1), (now - 5_000, 1), (now - 7_000, 1)]
    )
    store.pause_tenant(b"paused")

    found = read()

    assert found.queues["q"].oldest == now - 9_000
    waits = {tenant: now - each.oldest for tenant, each in found.tenant.items()}
    assert waits == {b"acme": 9_000, b"globex": 5_000, b"paused": 7_000}
    assert found.tenant[b"paused"].paused
    assert series(found)['tq_tenant_paused{tenant="paused"}'] == 1


def test_a_configured_tenant_is_there_without_tasks(store: RedisStore, read: Read) -> None:
    store.set_cap(b"capped", 3)
    assert read().tenant == {b"capped": TenantGauges(configured=True)}


def test_a_look_takes_as_many_round_trips_whatever_there_is(store: RedisStore, read: Read) -> None:
    """A scrape is as cheap at a million tasks: commands grow with the queues alone."""

    def commands() -> tuple[int, float]:
        before = _calls(store)
        started = time.perf_counter()
        read()
        took = time.perf_counter() - started
        return _calls(store) - before, took

    submit(store, task("first"))
    admit_all(store)
    few, _ = commands()
    store.submit_many([task(f"t{n}", f"tenant {n % 400}") for n in range(4_000)], Limits())
    admit_all(store)
    many, took = commands()
    assert few == many
    assert took < 0.05 + BUSY


def _calls(store: RedisStore) -> int:
    stats = store.client.info("commandstats")
    return sum(int(each["calls"]) for name, each in stats.items() if name != "cmdstat_info")


def test_the_number_of_series_stays(store: RedisStore, read: Read) -> None:
    """After 100 worker restarts and with 1,000 tenants a scrape has as many series as before.

    danihodovic/celery-exporter #157: hosts, processes and consumers as labels make series without
    end. No label here holds any of them. Seen to fail with the worker's name as a label.
    """
    store.submit_many([task(f"t{n}", f"tenant {n % 50}") for n in range(150)], Limits())
    admit_all(store)
    serve(store, "host-1-aa", 50)
    store.renew(WorkerAnnouncement("host-1-aa", ("q",), 4, 0), 30_000)
    before = series(read())
    names = []
    for number in range(100):
        names.append(f"{secrets.token_hex(4)}-{number}-{secrets.token_hex(8)}")
        serve(store, names[-1], 1)
    store.submit_many([task(f"u{n}", f"tenant {n % 1_000}") for n in range(2_000)], Limits())
    admit_all(store)
    serve(store, "host-2-bb", 1_000)

    after = series(read())

    assert len(after) == len(before) == 143 + 15 + 20 * 3
    assert after["tq_tenants"] > 900
    assert not any(name in line for line in after for name in names)
    assert after['tq_settled_tasks_total{outcome="completed",queue="q"}'] == 1_150
    assert after['tq_service_seconds_total{queue="q"}'] == 1.15
    counted = [name for name in after if name.startswith("tq_tenant_service")]
    assert len(counted) == 21
    shown = [value for name, value in after.items() if name.startswith("tq_tenant_waiting")]
    assert len(shown) == 21
    assert sum(shown) == after['tq_pending_tasks{queue="q"}']


def serve(store: RedisStore, worker: str, count: int) -> None:
    """Let a worker come, do some tasks and go; then let the leader look at the accounts."""
    store.renew(WorkerAnnouncement(worker, ("q",), 4, 0), 30_000)
    while count > 0:
        store.dispatch(1, ("q",), min(count, 500), 500)
        held = store.read(worker, {"q": 500}, 0)
        count -= len(held)
        store.complete(worker, [complete(each.token) for each in held])
    store.withdraw(worker)
    account(store)


def account(store: RedisStore) -> None:
    store.account(1, 4, 1, 1_000, record_changes(store.accounts(), 20))


def test_no_counter_falls_while_it_is_shown(store: RedisStore, read: Read) -> None:
    """Who gets series takes nothing from ``other``, and who loses them adds nothing.

    Seen to fail with ``other`` as what all got less what those got that are shown.
    """
    looks: list[dict[str, float]] = []
    for step in range(1, 4):
        # thirty newcomers, each of which gets more than anybody before
        crowd = [f"tenant {step}.{n % 30}" for n in range(30 * step)]
        store.submit_many([task(f"{step}.{n}", each) for n, each in enumerate(crowd)], Limits())
        admit_all(store)
        store.renew(WorkerAnnouncement("w", ("q",), 4, 0), 30_000)
        store.dispatch(1, ("q",), 500, 500)
        held = store.read("w", {"q": 500}, 0)
        store.complete("w", [complete(each.token) for each in held])
        looks.append(series(read()))
        account(store)
        looks.append(series(read()))
    for before, after in pairwise(looks):
        counters = [name for name in after if "_total" in name and name in before]
        assert not [name for name in counters if after[name] < before[name]]
    other = [look['tq_tenant_service_seconds_total{tenant="other"}'] for look in looks]
    assert other == [0.03, 0.03, 0.09, 0.09, 0.18, 0.18]
    assert sum("tq_tenant_service" in name for name in looks[-1]) == 21
    assert looks[-1]['tq_tenant_service_seconds_total{tenant="tenant 3.0"}'] == 0.003
    assert looks[-1]['tq_service_seconds_total{queue="q"}'] == 0.18


def test_a_sum_may_grow_for_thousands_of_years_of_slots(store: RedisStore, read: Read) -> None:
    """Ten thousand slots do 3,170 years of work in four months.

    Seen to fail: the server writes a script's number from 1e17 on as `1e+17`, which no scrape read.
    """
    counters = store.keys.name("counters")
    store.client.hset(counters, "service:q", 10**17 - 500)
    for name in ("a", "b"):
        submit(store, task(name))
        admit_all(store)
        store.dispatch(1, ("q",), 1, 100)
        (held,) = store.read("w", {"q": 1}, 0)
        store.complete("w", [complete(held.token, ran=1_000.0)])
    assert store.client.hget(counters, "service:q") == b"100000000001999504"
    assert series(read())['tq_service_seconds_total{queue="q"}'] == pytest.approx(1e11)
