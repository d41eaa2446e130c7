"""Counters against a full scan of the result records, after kills and with a pool of eight."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.chaos.cluster import Cluster
from tests.chaos.test_metrics import port_of, series
from tests.waiting import wait_until
from tq_celery.store.record import NO_DEADLINE

pytestmark = pytest.mark.slow

#: Tasks that are over at once, and tasks that run for a while.
QUICK, SLOW = 2_000, 120
#: Deliveries that are lost for certain, whatever the killed workers hold.
HELD = 5
#: Tenants with weights: they have counters from the start.
HEAVY = [f"heavy {number}" for number in range(5)]

Records = list[dict[str, bytes]]


def scan_served(records: Records) -> dict[bytes, tuple[int, int, int]]:
    """Add up microseconds, waits and ms waited by tenant."""
    micros, waits, waited = Counter[bytes](), Counter[bytes](), Counter[bytes]()
    for each in records:
        started, finished = float(each["started"]), float(each["finished"])
        micros[each["tenant"]] += int((finished - started) * 1000 + 0.5) if started else 0
        if each["dispatched"] != b"0":
            waits[each["tenant"]] += 1
            waited[each["tenant"]] += wait_of(each)
    return {tenant: (micros[tenant], waits[tenant], waited[tenant]) for tenant in waits}


def wait_of(record: dict[str, bytes]) -> int:
    return max(0, int(record["dispatched"]) - int(record["arrived"]))


def scan_deadlines(records: Records) -> tuple[int, int]:
    """Count the tasks that had a deadline, and those of them that missed it."""
    ends = [(float(r["finished"]), int(r["deadline"])) for r in records]
    due = [end > deadline for end, deadline in ends if deadline < NO_DEADLINE]
    return len(due), sum(due)


def test_counters_equal_a_full_scan_after_kills(cluster_of: Any, make_server: Any) -> None:
    """Two workers and the leader are killed at work; all that is counted is what the records say.

    danihodovic/celery-exporter #157. Seen to fail with the last task of a batch alone added up.
    """
    cluster: Cluster = cluster_of(
        make_server("redis"), lease=1.0, metrics_port="auto", delivery_budget=50
    )
    for tenant in HEAVY:
        cluster.store.set_weight(tenant.encode(), 2.0)
    schedulers = [cluster.scheduler(), cluster.scheduler()]
    ports = {program.pid: port_of(program) for program in schedulers}
    first = wait_until(lambda: shown(ports), "one leads")
    assert first == dict.fromkeys([*HEAVY, "other"], (0, 0, 0))

    tenants = [*HEAVY, *(f"tenant {number}" for number in range(35))]
    cluster.send_many("noop", QUICK, tenant=lambda number: tenants[number % 40], deadline=600)
    cluster.send_many(
        "nap", SLOW, kwargs={"seconds": 0.05}, deadline=0.5,
        tenant=lambda number: tenants[number % 20],
    )  # fmt: skip
    cluster.hold("lost", HELD, lease=1_000)
    workers = [cluster.worker("prefork", 8), cluster.worker("threads", 4)]
    wait_until(lambda: cluster.settled_beyond(QUICK // 10), "some are settled")
    workers[0].kill()
    leader = cluster.leader()
    leader.kill()
    del ports[leader.pid]
    cluster.worker("prefork", 8)
    wait_until(lambda: cluster.settled_beyond(QUICK // 2), "half are settled")
    workers[1].kill()
    wait_until(lambda: shown(ports), "the other one leads")
    cluster.assert_clean()

    records = cluster.results()
    assert len(records) == QUICK + SLOW
    scanned = scan_served(records)
    kept = cluster.store.accounts().served
    assert {tenant: each[:3] for tenant, each in kept.items()} == scanned
    wait_until(lambda: len(shown(ports)) == 26, "five with weights, twenty others, and `other`")
    seen = shown(ports)
    named = {name.decode(): each for name, each in scanned.items()}
    assert {name: each for name, each in seen.items() if name != "other"}.items() <= named.items()

    (port,) = ports.values()
    after = series(port)
    queue = '{queue="celery"}'
    total = [sum(each[part] for each in scanned.values()) for part in range(3)]
    assert round(after[f"tq_service_seconds_total{queue}"] * 1e6) == total[0]
    assert after[f"tq_admitted_tasks_total{queue}"] == QUICK + SLOW == total[1]
    assert after[f"tq_longest_wait_seconds{queue}"] == max(map(wait_of, records)) / 1000
    due, missed = scan_deadlines(records)
    assert due == QUICK + SLOW
    assert missed > 0
    assert after[f"tq_deadline_tasks_total{queue}"] == due
    assert after[f"tq_deadlines_missed_total{queue}"] == missed
    lost = sum(int(each["attempts"]) for each in records)
    assert after[f"tq_reclaimed_deliveries_total{queue}"] >= max(lost, HELD)

    # workers come and go: nothing of them is in any series
    for _ in range(2):
        cluster.worker("solo", 1).kill()
    wait_until(lambda: not cluster.left_over(), "nothing is left over")
    assert set(series(port)) == set(after)


def shown(ports: dict[int, int]) -> dict[str, tuple[int, int, int]]:
    """Return microseconds, waits and ms waited by tenant, of those that have counters.

    Nothing while nobody leads.
    """
    scraped = map(series, ports.values())
    seen = next((each for each in scraped if each["tq_scheduler_is_leader"]), {})
    start, end = 'tq_tenant_service_seconds_total{tenant="', '"}'
    tenants = [name[len(start) : -len(end)] for name in seen if name.startswith(start)]

    def of(name: str, tenant: str, unit: float) -> int:
        return round(seen[f'tq_tenant_{name}_total{{tenant="{tenant}"}}'] * unit)

    return {
        tenant: (
            of("service_seconds", tenant, 1e6),
            of("waits", tenant, 1),
            of("wait_seconds", tenant, 1e3),
        )
        for tenant in tenants
    }
