"""Purging, listing and draining; and removal where a tenant is held back or a switch goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.store.contract.lab import Lab
from tests.store.contract.steps import (
    complete,
    dispatch_all,
    submit,
    task,
)
from tests.store.contract.stopping_steps import STATES, assert_empty, bring, bury_the_dead
from tq_celery.store.contract import Dispatched, Return


def everywhere(lab: Lab) -> None:
    """Two tenants and two queues with a task in each state."""
    for state in reversed(STATES):
        for queue in ("q", "other"):
            for tenant in ("x", "y"):
                bring(lab, state, f"{state}{queue}{tenant}", queue=queue, tenant=tenant)
    lab.store.dispatch(1, ["other"], 100, 100)


@pytest.mark.parametrize(
    ("asked", "purged"),
    [({}, 16), ({"queues": ["q"]}, 8), ({"queues": ["q"], "tenant": b"x"}, 4),
     ({"tenant": b"y"}, 8), ({"queues": []}, 0), ({"queues": ["none"]}, 0)],
)  # fmt: skip
@pytest.mark.parametrize("policy", ["wfq", "priority"])
def test_a_purge_removes_all_that_waits_and_says_how_many(
    make_lab: Callable[..., Lab], policy: str, asked: dict[str, Any], purged: int
) -> None:
    lab = make_lab(policy=policy)
    everywhere(lab)
    assert lab.store.purge(**asked) == purged
    lab.view().assert_conserved()
    assert len(lab.view().results) == purged
    assert lab.store.purge(**asked) == 0
    assert lab.store.purge() == 16 - purged
    assert set(bury_the_dead(lab)) == {("revoked", "purged")}
    assert_empty(lab)


def test_a_purge_leaves_what_runs(lab: Lab) -> None:
    bring(lab, "running", "n")
    bring(lab, "pending", "m")
    assert lab.store.purge() == 1
    assert lab.store.complete("w", [complete(lab.tokens("q")[0])]) == [True]
    bury_the_dead(lab)
    assert_empty(lab)


def test_delayed_tasks_are_listed_soonest_first(lab: Lab) -> None:
    submit(lab.store, *[task(f"n{i}", delay=90_000 - i * 1_000, priority=i) for i in range(5)])
    submit(lab.store, task("o", "acme", "other", delay=1_000), task("now"))
    lab.spoil_delayed(b"not ours")
    listed = lab.store.delayed(["q"], 3)
    assert [(each.id, each.priority, each.key) for each in listed] == [
        (f"n{i}", i, f"0.0.0.n{i}".encode()) for i in (4, 3, 2)
    ]
    (first, *rest) = lab.store.delayed()
    assert (first.id, first.queue, first.tenant, len(rest)) == ("o", "other", b"acme", 5)
    assert rest[0].due - first.due == pytest.approx(85_000, abs=500)


def test_a_drained_task_is_kept_until_it_is_published(lab: Lab) -> None:
    bring(lab, "pending", "n", priority=7)
    bring(lab, "delayed", "later")
    found = [each for batch in lab.store.waiting(["q"], exec_too=False) for each in batch]
    items = [each.item for each in found]
    assert lab.store.drain(items) == [True, True]
    assert lab.store.drain(items) == [False, False]
    view = lab.view()
    view.assert_conserved()
    assert view.counters == {"accepted:q": 2, "drained:q": 2}
    assert view.nonempty("live", "pending", "heads", "starts", "delayed", "obituary") == {}
    drained = {each.key: each for each in lab.store.draining(10)}
    assert drained[b"0.0.0.n"][1:] == ("q", b"t", 0, 7, b"payload of n")
    assert drained[b"0.0.0.later"].due > 0
    assert len(lab.store.draining(1)) == 1
    assert lab.store.close_drained([b"0.0.0.n", b"0.0.0.n"]) == 1
    assert lab.store.close_drained([b"0.0.0.later"]) == 1
    assert_empty(lab)


# -- those who are held back -------------------------------------------------------------------


@pytest.mark.parametrize("hold", ["pause", "cap", "queue"])
def test_a_task_of_a_held_back_tenant_is_removed(lab: Lab, hold: str) -> None:
    bring(lab, "running", "n")
    bring(lab, "pending", "a", "b")
    if hold == "pause":
        lab.store.pause_tenant(b"t")
    elif hold == "cap":
        lab.store.set_cap(b"t", 1)
        assert dispatch_all(lab.store) == 0
    else:
        lab.store.pause_queue("q")
    assert lab.store.revoke(["a"]) == {"a": "revoked"}
    lab.view().assert_conserved()
    assert lab.store.revoke(["b"]) == {"b": "revoked"}
    assert lab.view().nonempty("heads", "gated", "starts", "pending") == {}
    bring(lab, "pending", "c")
    lab.store.resume_tenant(b"t")
    lab.store.resume_queue("q")
    lab.store.complete("w", [complete(lab.tokens("q")[0])])
    dispatch_all(lab.store)
    assert lab.names("q") == ["c"], "the tenant competes as before"


def test_an_unread_delivery_frees_its_slot(lab: Lab) -> None:
    """Of a capped tenant too: the next task runs without waiting for a settlement."""
    bring(lab, "pending", "a", "b")
    lab.store.set_cap(b"t", 1)
    assert lab.store.dispatch(1, ["q"], 1, 1) == Dispatched(1, True, {"q": 1})
    assert lab.store.dispatch(1, ["q"], 9, 9).count == 0, "the tenant is at its cap"
    cursor = lab.store.read_ingress(b"", 9, 0).cursor
    assert lab.store.revoke(["a"]) == {"a": "revoked"}
    assert "credit" in lab.store.read_ingress(cursor, 9, 0).wakes, "the leader is told"
    assert lab.store.dispatch(1, ["q"], 1, 1).count == 1
    assert lab.names("q") == ["b"]


def test_a_task_that_came_back_with_a_delay_is_removed(lab: Lab) -> None:
    """Its time is another than the one it was put in with."""
    bring(lab, "running", "n")
    lab.store.give_back([Return(lab.tokens("q")[0], delay=50_000)], 5)
    assert lab.store.revoke(["n"]) == {"n": "revoked"}
    bury_the_dead(lab)
    assert_empty(lab)


@pytest.mark.parametrize("ranked", [0, 1, 2])
@pytest.mark.parametrize("held", [False, True])
def test_a_switch_of_the_policy_leaves_nothing_of_a_purged_tenant(
    lab: Lab, held: bool, ranked: int
) -> None:
    """Neither before the leader has come to the tenant nor when it has ranked some of its tasks."""
    bring(lab, "pending", "a", "b", "c")
    if held:
        lab.store.pause_tenant(b"t")
    lab.store.set_policy("priority")
    for _ in range(ranked):
        (stale,) = lab.store.stale(1)
        ranks = [(member, 0.0) for member, _ in stale.members]
        assert lab.store.rerank(1, 2, stale.queue, stale.tenant, ranks) > 0
    assert lab.store.purge() == 3
    assert lab.store.stale(10) == [], "nothing is left to rank"
    bury_the_dead(lab)
    assert_empty(lab)
