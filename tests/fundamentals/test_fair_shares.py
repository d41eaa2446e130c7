"""Fair shares: who runs next when everybody wants to."""

from __future__ import annotations

from collections import Counter

import pytest
from celery import Celery

from tq_celery import TQ

app = Celery("shop")
tq = TQ(app)

ran: list[str] = []


@tq.task(tenant="account")
def invoice(account):
    ran.append(account)


@tq.task(tenant="account", cost=5)
def catalogue(account):
    ran.append(account)


@pytest.fixture(autouse=True)
def nothing_ran_yet():
    ran.clear()


def all_of(results):
    for result in results:
        result.get(timeout=30)


def test_a_flood_does_not_keep_the_others_waiting(queue_paused):
    with queue_paused():
        flood = [invoice.delay("globex") for _ in range(100)]
        small = [invoice.delay("acme") for _ in range(3)]

    all_of(small + flood)
    assert ran[:6].count("acme") == 3, "acme came last and had its turn all the same"


def test_every_tenant_that_waits_gets_its_turn(queue_paused):
    with queue_paused():
        sent = [invoice.delay(name) for name in ["a"] * 20 + ["b"] * 10 + ["c"] * 5]

    all_of(sent)
    assert Counter(ran[:15]) == {"a": 5, "b": 5, "c": 5}


def test_a_weight_of_three_is_three_times_the_share(queue_paused, operate):
    operate("tenants", "weight", "acme", "3", "--new")

    with queue_paused():
        sent = [invoice.delay(name) for name in ["globex"] * 30 + ["acme"] * 30]

    all_of(sent)
    assert Counter(ran[:20]) == {"acme": 15, "globex": 5}
    operate("tenants", "weight", "acme", "1", "--new")


def test_a_dear_task_counts_for_as_many_as_it_costs(queue_paused):
    with queue_paused():
        sent = [catalogue.delay("globex") for _ in range(10)]
        sent += [invoice.delay("acme") for _ in range(50)]

    all_of(sent)
    assert Counter(ran[:24]) == {"acme": 20, "globex": 4}


def test_a_tenants_own_tasks_keep_their_order(queue_paused, totals, result_lines):
    with queue_paused():
        sent = [invoice.delay(name) for name in ("acme", "globex") * 5]

    all_of(sent)
    totals()
    of_acme = [sent[index].id for index in range(0, 10, 2)]
    finished = [line["id"] for line in result_lines()]
    assert [task for task in finished if task in of_acme] == of_acme


def test_an_idle_tenant_saves_nothing_up(queue_paused):
    all_of([invoice.delay("globex") for _ in range(30)])  # acme is idle all this time

    ran.clear()
    with queue_paused():
        sent = [invoice.delay(name) for name in ["globex"] * 10 + ["acme"] * 10]

    all_of(sent)
    assert Counter(ran[:10]) == {"acme": 5, "globex": 5}


def test_the_policy_can_be_switched_while_everything_runs(queue_paused, operate):
    operate("policy", "set", "fifo", "--wait", "10s")

    with queue_paused():
        sent = [invoice.delay(name) for name in ["globex"] * 10 + ["acme"] * 10]

    all_of(sent)
    assert ran == ["globex"] * 10 + ["acme"] * 10
    operate("policy", "set", "wfq", "--wait", "10s")
