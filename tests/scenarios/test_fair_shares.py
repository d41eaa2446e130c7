"""Who gets how much under ``wfq``, in virtual time, with the margin stated in each test.

The bound of self-clocked fair queuing for two backlogged tenants is a difference in normalised
service of at most c1/w1 + c2/w2; margins below are that bound or wider.
"""

from __future__ import annotations

import itertools
import random

import pytest

from tests.scenarios.simulation import Simulation
from tq_celery.measures import jain


def test_equal_tenants_get_equal_service() -> None:
    """Four tenants, costs 1: after any number of starts nobody is more than one task ahead."""
    pool = Simulation(slots=2)
    for name in "abcd":
        pool.send(name, 100)
    for _ in range(80):
        pool.run(1)
        counts = [pool.service[name] for name in "abcd"]
        assert max(counts) - min(counts) <= 1


def test_service_follows_weights_not_task_sizes() -> None:
    """Costs 10:1 and equal weights: Jain's index of service/weight at least 0.99."""
    pool = Simulation(slots=4)
    for name, cost in (("big", 10.0), ("small", 1.0), ("mixed", 3.0)):
        pool.send(name, int(3000 / cost), cost=cost)
    pool.run(1500)
    assert all(pool.waiting(name) for name in ("big", "small", "mixed"))
    assert jain(pool.service.values()) >= 0.99
    assert max(pool.service.values()) - min(pool.service.values()) <= 10 + 1


@pytest.mark.parametrize("seed", range(3))
def test_shares_5_3_2_over_a_thousand_starts(seed: int) -> None:
    """A:B:C = 5:3:2, each within 10 % of its share (celery/kombu #166).

    Costs differ at random; the shares are of service and hold all the same.
    """
    dice = random.Random(seed)
    pool = Simulation(slots=8)
    weights = {"A": 5.0, "B": 3.0, "C": 2.0}
    for name, weight in weights.items():
        pool.store.set_weight(name.encode(), weight)
    for _, name in itertools.product(range(1000), weights):
        pool.send(name, 1, cost=dice.choice([0.5, 1.0, 1.5]))
    pool.run(1000)
    assert len(pool.starts) == 1000
    total = sum(pool.service.values())
    for name, weight in weights.items():
        assert pool.service[name] / total == pytest.approx(weight / 10, rel=0.10)


def test_shares_5_3_2_of_equal_tasks_are_exact() -> None:
    """With equal costs every window of ten starts is 5, 3 and 2, give or take one."""
    pool = Simulation()
    for name, weight in (("A", 5.0), ("B", 3.0), ("C", 2.0)):
        pool.store.set_weight(name.encode(), weight)
        pool.send(name, 600)
    pool.run(1000)
    order = [tenant for _, tenant, _ in pool.starts]
    for at in range(0, 1000, 10):
        window = order[at : at + 10]
        assert abs(window.count("A") - 5) <= 1
        assert abs(window.count("B") - 3) <= 1
        assert abs(window.count("C") - 2) <= 1


@pytest.mark.parametrize(("policy", "starved"), [("fifo", True), ("wfq", False)])
def test_a_dominant_tenant_starves_others_under_fifo_only(policy: str, starved: bool) -> None:
    """50,000 would do the same as 2,000: under fifo the other waits for all of them.

    Under wfq it waits for one task in service and one of each tenant before it.
    """
    pool = Simulation(slots=1, policy=policy)
    pool.send("flood", 2000)
    pool.run(100)
    pool.send("quiet", 1)
    pool.run(5)
    served = pool.service["quiet"] > 0
    assert served is not starved
    if not starved:
        assert max(pool.waits["quiet"]) <= 2.0


def test_five_trickles_beside_one_backlog() -> None:
    """A tenant that sends less than its share waits at most one round: 6 tasks, here 6 s."""
    pool = Simulation(slots=1)
    pool.send("flood", 3000)
    trickles = [f"trickle{i}" for i in range(5)]
    for second in range(0, 1000, 10):
        for name in trickles:
            pool.send(name, 1)
        pool.advance(second + 10)
    for name in trickles:
        assert len(pool.waits[name]) == 100
        assert max(pool.waits[name]) <= 6.0
    assert pool.service["flood"] == pytest.approx(500, abs=6)


def test_two_hundred_idle_tenants_cost_nothing() -> None:
    """Tenants that had work and have none take no share, no turn and no memory."""
    pool = Simulation(slots=1)
    for i in range(200):
        pool.send(f"idle{i}", 1)
    pool.run(200)
    pool.send("a", 50)
    pool.send("b", 50)
    before = len(pool.starts)
    pool.run(100)
    order = [tenant for _, tenant, _ in pool.starts[before:]]
    assert set(order) == {"a", "b"}
    assert abs(order[:50].count("a") - 25) <= 1
    assert pool.tags == 0


def test_idleness_earns_nothing() -> None:
    """After a long pause a tenant gets its share from now on, and no arrears: margin one task."""
    pool = Simulation(slots=1)
    pool.send("busy", 1000)
    pool.send("sleeper", 1)
    pool.run(500)
    pool.send("sleeper", 500)
    before = pool.service.copy()
    pool.run(100)
    gained = {name: pool.service[name] - before[name] for name in ("busy", "sleeper")}
    assert abs(gained["busy"] - gained["sleeper"]) <= 1


@pytest.mark.parametrize("gate", ["cap", "pause"])
def test_being_held_back_earns_nothing(gate: str) -> None:
    """Neither a cap nor a pause saves up service for later: margin one task.

    Fails when a gated tenant keeps its start.
    """
    pool = Simulation(slots=1)
    pool.send("free", 1000)
    pool.send("held", 500)
    if gate == "pause":
        pool.store.pause_tenant(b"held")
    else:
        pool.store.set_cap(b"held", 0)
    pool.run(300)
    assert pool.service["held"] == 0
    if gate == "pause":
        pool.store.resume_tenant(b"held")
    else:
        pool.store.set_cap(b"held", None)
    before = pool.service.copy()
    pool.run(100)
    gained = {name: pool.service[name] - before[name] for name in ("free", "held")}
    assert abs(gained["free"] - gained["held"]) <= 2


def test_a_capped_tenant_leaves_its_slots_to_others() -> None:
    """With a cap of one of four slots the rest is used, and never more than one by the capped."""
    pool = Simulation(slots=4)
    pool.store.set_cap(b"capped", 1)
    pool.send("capped", 200)
    pool.send("free", 600)
    pool.run(400)
    assert pool.store.ns.running_of[b"capped"] <= 1
    assert pool.service["capped"] == pytest.approx(100, abs=2)
    assert pool.service["free"] == pytest.approx(300, abs=2)


def test_leaving_and_coming_back_gains_nothing() -> None:
    """A tenant that sends one task at a time gets no more than one that keeps a backlog."""
    pool = Simulation(slots=1)
    pool.send("steady", 1000)
    for _ in range(300):
        if not pool.waiting("hopper"):
            pool.send("hopper", 1)
        pool.run(1)
    assert pool.service["hopper"] <= pool.service["steady"] + 1


def test_two_queues_of_the_same_workers_are_one_share() -> None:
    """Splitting work over two queues gains nothing: margin one task of each queue."""
    pool = Simulation(slots=1, queues=("a", "b"))
    pool.send("splitter", 400, queue="a")
    pool.send("splitter", 400, queue="b")
    pool.send("single", 400, queue="a")
    pool.run(400)
    assert abs(pool.service["splitter"] - pool.service["single"]) <= 2


def test_state_is_bounded_by_who_waits() -> None:
    """A thousand tenants come and go; what is remembered is who waits now."""
    pool = Simulation(slots=1)
    pool.send("resident", 2000)
    for i in range(1000):
        pool.send(f"guest{i}", 1)
        pool.run(2)
        assert pool.tags <= 3
    pool.run(3000)
    assert pool.tags == 0
    assert pool.virtual >= 1000
