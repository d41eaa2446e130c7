"""Fair sharing while things change: heads, weights, returned work, leaders, policies."""

from __future__ import annotations

import pytest

from tests.scenarios.simulation import Simulation
from tests.store.contract.steps import rerank_all


def test_urgent_arrivals_do_not_send_their_tenant_to_the_back() -> None:
    """A tenant whose head keeps changing gets its share, to within one of its tasks.

    Every ten starts it receives a slightly more urgent task of cost 20. With its start taken from
    V again at each change, it was served 0 where 800 was its share.
    """
    pool = Simulation(order_within="priority")
    others = [f"s{i}" for i in range(4)]
    for name in others:
        pool.send(name, 2000)
    for i in range(400):
        pool.send("urgent", 1, cost=20.0, priority=min(255, 1 + i // 2))
        pool.start(10)
    expected = sum(pool.service.values()) / 5
    assert pool.service["urgent"] == pytest.approx(expected, abs=20 + 1)
    for name in others:
        assert pool.service[name] == pytest.approx(expected, abs=20 + 1)


def test_recovered_work_does_not_send_its_tenant_to_the_back() -> None:
    """Tasks come back to the front of their tenant again and again, and cost it no turn."""
    pool = Simulation()
    pool.send("unlucky", 500)
    pool.send("lucky", 500)
    for i in range(400):
        (tenant,) = pool.start()
        if tenant == "unlucky" and i % 3 == 0:
            pool.give_back_latest()
    assert pool.service["unlucky"] == pytest.approx(pool.service["lucky"], abs=2)


@pytest.mark.parametrize("how", ["give_back", "reclaim"])
def test_returned_work_is_charged_once(how: str) -> None:
    """Every other delivery of one tenant returns once: both complete as much, margin two tasks.

    Fails when paid work is charged like any other.
    """
    pool = Simulation()
    pool.send("returns", 800)
    pool.send("steady", 800)
    done = {"returns": 0, "steady": 0}
    seen: set[str] = set()
    number = 0
    while sum(done.values()) < 800:
        (tenant,) = pool.start()
        name = pool.starts[-1][2]
        if tenant == "returns" and name not in seen:
            seen.add(name)
            number += 1
            if number % 2:
                if how == "give_back":
                    pool.give_back_latest()
                else:
                    pool.starts.pop()
                    pool._running.clear()
                    assert pool.store.reclaim("w", 5, True, 10) == 1
                continue
        done[tenant] += 1
        pool.finish_next()
    assert abs(done["returns"] - done["steady"]) <= 2


def test_a_raised_weight_acts_on_the_backlog_at_once() -> None:
    """From 0.01 to 100: the tenant's next task is the very next to start, not 5,000 later."""
    pool = Simulation()
    pool.store.set_weight(b"light", 0.01)
    for i in range(4):
        pool.send(f"s{i}", 500)
    pool.send("light", 50, cost=50.0)
    pool.start(100)
    assert pool.service["light"] == 0
    assert pool.store.set_weight(b"light", 100.0) == 1
    assert pool.start(1) == ["light"]
    # From now on it has 100 shares of 104; its tasks are worth 50 of the others'.
    pool.start(49)
    assert pool.service["light"] >= 0.9 * 50 * 50


def test_a_lowered_weight_acts_at_once_too() -> None:
    pool = Simulation()
    pool.store.set_weight(b"heavy", 100.0)
    pool.send("heavy", 500)
    pool.send("plain", 500)
    pool.start(101)
    assert pool.service["heavy"] >= 99
    pool.store.set_weight(b"heavy", 0.01)
    before = pool.service["heavy"]
    pool.start(95)
    assert pool.service["heavy"] - before <= 1


def test_shares_survive_a_change_of_leader() -> None:
    """Nothing that fair sharing knows is in a leader: the order is the same with and without."""
    orders = []
    for leaders in (1, 40):
        pool = Simulation()
        pool.store.set_weight(b"a", 3.0)
        for name, cost in (("a", 1.0), ("b", 2.0), ("c", 0.7)):
            pool.send(name, 100, cost=cost)
        for i in range(200):
            pool.start()
            if i % (200 // leaders) == 0 and leaders > 1:
                pool.take_over()
        orders.append([tenant for _, tenant, _ in pool.starts])
    assert orders[0] == orders[1]


def test_a_policy_switch_and_back_loses_nothing() -> None:
    """fifo and back to wfq on a backlog: every task starts once and shares are even again."""
    pool = Simulation()
    pool.send("a", 300)
    pool.send("b", 300)
    pool.start(50)
    for policy in ("fifo", "priority", "edf", "wfq"):
        pool.store.set_policy(policy, "arrival")
        rerank_all(pool.store, pool.epoch, batch=7)
        pool.start(10)
    before = pool.service.copy()
    pool.start(100)
    gained = {name: pool.service[name] - before[name] for name in "ab"}
    assert abs(gained["a"] - gained["b"]) <= 1
    pool.start(1000)
    assert pool.service == {"a": 300, "b": 300}
    assert len({name for _, _, name in pool.starts}) == 600


def test_queues_that_come_to_share_workers_start_even() -> None:
    """Two queues join one group: whoever was ahead in its own queue owes nothing there."""
    pool = Simulation(queues=("a", "b"))
    pool.store.regroup(1, {"a": "a", "b": "b"})
    pool.send("long", 1000, queue="a")
    pool.queues = ("a",)
    pool.start(500)
    pool.queues = ("a", "b")
    pool.send("new", 500, queue="b")
    pool.store.regroup(1, {"a": "a", "b": "a"})
    before = pool.service["long"]
    pool.start(100)
    assert abs(pool.service["long"] - before - pool.service["new"]) <= 2


def test_v_is_not_reset_while_work_executes() -> None:
    """An empty queue is not an idle pool: whoever just ran does not start from zero again."""
    pool = Simulation(slots=1)
    pool.send("first", 1, cost=100.0)
    pool.start()
    assert pool.store.ns.pending == {}
    assert pool.virtual == 100.0
    pool.send("first", 3)
    pool.send("second", 3)
    assert pool.start(4) == ["first", "second", "first", "second"]


def test_a_paused_queue_banks_nothing() -> None:
    """A tenant that waits in a paused queue has no arrears when it is resumed: margin one task."""
    pool = Simulation(queues=("a", "b"))
    pool.send("here", 600, queue="a")
    pool.send("there", 600, queue="b")
    pool.store.pause_queue("b")
    pool.start(200)
    assert pool.service["there"] == 0
    pool.store.resume_queue("b")
    before = pool.service["here"]
    pool.start(100)
    assert abs(pool.service["here"] - before - pool.service["there"]) <= 2
