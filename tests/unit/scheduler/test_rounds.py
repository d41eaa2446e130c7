"""What one round of a scheduler does to a namespace, on the store in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.scheduler.support import Bench, Store
from tq_celery.errors import FencedError, StoreError, StoreUnavailableError
from tq_celery.store.contract import Admission, Return


def test_a_task_goes_from_ingress_to_exec_in_one_round() -> None:
    bench = Bench()
    bench.worker("w", "q", slots=4)
    bench.submit()
    bench.run()
    assert bench.exec_keys() == ["task-1"]
    assert not bench.store.ns.ingress
    stats = bench.scheduler.stats
    assert (stats.admitted, stats.dispatched, stats.epoch) == (1, 1, 1)
    assert all(not loop.failures for loop in stats.loops.values())


def test_no_more_is_dispatched_than_workers_have_slots() -> None:
    bench = Bench()
    bench.worker("w", "q", slots=3)
    bench.submit(count=10)
    bench.run(3)
    assert len(bench.exec_keys()) == 3
    assert bench.settle("w", count=2) == 2
    bench.run()
    assert len(bench.exec_keys()) == 3


def test_without_workers_tasks_wait_in_pending() -> None:
    bench = Bench()
    bench.submit(count=3)
    bench.run(2)
    assert bench.exec_keys() == []
    assert bench.store.ns.counters["pending", "q"] == 3
    assert bench.store.dispatch_calls == []  # nor is the server asked


def test_a_lapsed_worker_offers_nothing() -> None:
    bench = Bench()
    bench.worker("w", "q", slots=3, lease=1_000)
    bench.pass_time(1_001)
    bench.submit()
    bench.run()
    assert bench.exec_keys() == []


def test_a_starved_lane_is_left_alone_until_credit_comes() -> None:
    bench = Bench()
    bench.worker("w", "q", slots=1)
    bench.submit(count=2)
    bench.run(2)
    calls = len(bench.store.dispatch_calls)
    bench.submit(count=5)
    bench.run(3)
    assert len(bench.store.dispatch_calls) == calls
    bench.settle("w")
    bench.run()
    assert len(bench.store.dispatch_calls) > calls
    assert bench.exec_keys() == ["task-2"]


def test_workers_with_overlapping_queues_share_slots_once() -> None:
    """One slot on {x, y} and one on {y, z}: at most two in flight, and no slot idle beside work."""
    bench = Bench()
    bench.worker("one", "x", "y", slots=1)
    bench.worker("two", "y", "z", slots=1)
    bench.submit("y", count=5)
    bench.run(2)
    assert len(bench.exec_keys("y")) == 2
    bench.submit("x", count=5)
    bench.submit("z", count=5)
    bench.run(2)
    assert (bench.exec_keys("x"), bench.exec_keys("z")) == ([], [])
    assert bench.settle("one", "y", count=1) == 1
    bench.run(2)
    flying = [len(bench.exec_keys(queue)) for queue in "xyz"]
    assert sum(flying) == 2
    assert flying == [0, 2, 0]  # fifo: y came first


def test_a_task_that_only_one_overlapping_worker_can_run_is_not_overtaken_twice() -> None:
    """x waits for the worker that x and y share; z is dispatched to the other meanwhile."""
    bench = Bench()
    bench.worker("one", "x", "y", slots=2)
    bench.worker("two", "y", "z", slots=2)
    bench.submit("x", count=3)
    bench.submit("z", count=3)
    bench.run(2)
    assert [len(bench.exec_keys(queue)) for queue in "xz"] == [2, 2]


def test_the_policy_orders_what_is_dispatched() -> None:
    bench = Bench({"policy": "priority"})
    bench.submit(priority=1)
    bench.submit(priority=9)
    bench.submit(priority=5)
    bench.run()
    bench.worker("w", "q", slots=3)
    bench.run()
    assert bench.exec_keys() == ["task-2", "task-3", "task-1"]


def test_delayed_tasks_are_promoted_when_due_and_ranked_like_others() -> None:
    bench = Bench({"policy": "priority"})
    bench.submit(delay=5_000, priority=9)
    bench.submit(priority=1)
    bench.run()
    assert bench.store.ns.counters["pending", "q"] == 1
    bench.pass_time(5_000)
    bench.run()
    bench.worker("w", "q", slots=2)
    bench.run()
    assert bench.exec_keys() == ["task-1", "task-2"]
    assert bench.scheduler.stats.promoted == 1


def test_a_policy_switch_reranks_what_waits_and_goes_on() -> None:
    bench = Bench({"policy": "fifo", "batch": 2})
    for priority in (1, 2, 3, 4, 5, 6, 7):
        bench.submit(priority=priority, tenant=b"t%d" % (priority % 3))
    bench.run(5)
    bench.store.set_policy("priority")
    bench.submit(priority=8)
    bench.run(20)
    bench.worker("w", "q", slots=20)
    bench.run(10)
    assert bench.exec_keys() == [f"task-{number}" for number in (8, 7, 6, 5, 4, 3, 2, 1)]
    assert bench.scheduler.stats.reranked == 7


def test_a_new_leader_finishes_a_switch_that_the_old_one_left() -> None:
    bench = Bench({"policy": "fifo"})
    bench.submit(priority=1)
    bench.submit(priority=9)
    bench.run()
    bench.store.set_policy("priority")
    bench.pass_time(10_000)
    bench.scheduler = bench.another()
    bench.worker("w", "q", slots=5)
    bench.run(3)
    assert bench.exec_keys() == ["task-2", "task-1"]


def test_policy_none_hands_everything_on_and_returned_work_again() -> None:
    bench = Bench({"policy": "none"})
    bench.submit(count=3)
    bench.run()
    assert len(bench.exec_keys()) == 3
    (delivery,) = bench.store.read("w", {"q": 1}, 0)
    bench.store.give_back([Return(delivery.token)], 5)
    bench.run()
    assert len(bench.exec_keys()) == 3


def test_queues_of_shared_workers_are_grouped_and_stay_so_while_a_worker_restarts() -> None:
    bench = Bench({"policy": "wfq"})
    bench.submit("a")
    bench.submit("b")
    bench.worker("w", "a", "b", slots=1)
    bench.run()
    groups = dict(bench.store.ns.groups)
    assert groups["b"] == "a"
    bench.store.withdraw("w")
    bench.run(2)
    assert dict(bench.store.ns.groups) == groups


def test_an_unreadable_entry_is_buried_and_the_next_task_runs() -> None:
    """celery/celery #1113: one broken message must not stop a consumer, here the leader."""
    bench = Bench()
    bench.worker("w", "q", slots=4)
    bench.submit()
    entry = next(iter(bench.store.ns.ingress.values()))
    entry.record = b"\xff\xfe"
    bench.submit()
    bench.run()
    assert bench.exec_keys() == ["task-2"]
    assert len(bench.store.ns.dead) == 1
    assert bench.scheduler.stats.buried == 1


def test_an_entry_that_the_script_cannot_take_is_buried_alone() -> None:
    class Choking(Store):
        def admit(self, epoch, generation, items: Sequence[Admission]):
            if any(b"task-2" in item.record for item in items):
                raise StoreError("admit", "lua/admit.lua:31: a fault")
            return super().admit(epoch, generation, items)

    bench = Bench(store=Choking())
    bench.worker("w", "q", slots=4)
    bench.submit(count=3)
    bench.run(2)
    assert bench.exec_keys() == ["task-1", "task-3"]
    assert bench.scheduler.stats.buried == 1


def test_a_due_task_that_the_script_cannot_take_is_buried_alone() -> None:
    class Choking(Store):
        def promote(self, epoch, generation, items):
            if any(b"task-2" in item.record for item in items):
                raise StoreError("promote", "lua/promote.lua:15: a fault")
            return super().promote(epoch, generation, items)

    bench = Bench(store=Choking())
    bench.worker("w", "q", slots=4)
    bench.submit(count=3, delay=10)
    bench.pass_time(10)
    bench.run(2)
    assert bench.exec_keys() == ["task-1", "task-3"]
    assert bench.scheduler.stats.buried_delayed == 1


def test_work_of_an_older_generation_that_comes_back_is_ranked_anew() -> None:
    bench = Bench({"policy": "fifo"})
    bench.worker("w", "q", slots=1)
    bench.submit(priority=1)
    bench.run()
    (delivery,) = bench.store.read("w", {"q": 1}, 0)
    bench.store.set_policy("priority")
    bench.submit(priority=9)
    bench.run(3)
    bench.store.give_back([Return(delivery.token)], 5)
    bench.run(3)
    assert bench.exec_keys() == ["task-2"]
    bench.settle("w")
    bench.run(2)
    assert bench.exec_keys() == ["task-1"]


@pytest.mark.parametrize("operation", ["admit", "dispatch", "elect", "workers"])
def test_a_store_that_is_away_loses_nothing(operation: str) -> None:
    bench = Bench()
    bench.worker("w", "q", slots=9)
    bench.submit(count=3)
    bench.store.failures[operation] = StoreUnavailableError(operation, "away")
    bench.run(3)
    assert bench.exec_keys() == []
    bench.store.failures.clear()
    bench.run(2)
    assert bench.exec_keys() == ["task-1", "task-2", "task-3"]


def test_a_superseded_leader_writes_nothing_and_runs_again() -> None:
    bench = Bench()
    bench.worker("w", "q", slots=9)
    bench.run()
    bench.store.ns.fence = 7  # another leader has written
    bench.submit()
    before = dict(bench.store.ns.counters)
    with pytest.raises(FencedError):
        bench.store.admit(1, 1, [])
    bench.run()
    assert dict(bench.store.ns.counters) == before
    assert bench.scheduler.stats.depositions == 0
    bench.run(2)
    assert bench.scheduler.stats.depositions == 1
    assert bench.scheduler.stats.epoch == 8
    assert bench.exec_keys() == ["task-1"]


def test_after_a_flush_the_next_term_seeds_the_namespace_again() -> None:
    bench = Bench({"policy": "edf"})
    bench.run()
    bench.store.ns = type(bench.store.ns)(now=bench.store.now)
    bench.store.index.ns = bench.store.ns
    bench.run(2)
    assert bench.store.ns.config["policy"] == "edf"
    bench.worker("w", "q", slots=9)
    bench.submit()
    bench.run()
    assert bench.exec_keys() == ["task-1"]


def test_two_schedulers_dispatch_each_task_once() -> None:
    bench = Bench()
    other = bench.another()
    bench.worker("w", "q", slots=100)
    for _ in range(5):
        bench.submit(count=3)
        bench.run()
        other.run_once()
    assert len(bench.exec_keys()) == len(set(bench.exec_keys())) == 15
    assert not other.leading
