"""Removing work under fair sharing: the rest is served as if it had never come, and nobody gains.

Seen to fail: without the floor in ``pull.lua`` a tenant that revokes a costly task at its head is
served alone for as long as that task had waited; with the start forgotten it loses its turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.contract.lab import Lab
from tests.store.contract.steps import admit_all, dispatch_all, submit, task
from tq_celery.store.contract import Return

TENANTS = "abc"
quick = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def wait(lab: Lab, count: int, tenant: str, cost: float = 1.0, name: str = "n") -> list[str]:
    """Let ``count`` tasks of a tenant be pending; returns their ids."""
    names = [f"{name}{tenant}{i}" for i in range(count)]
    submit(lab.store, *[task(each, tenant, cost=cost) for each in names])
    admit_all(lab.store)
    return names


def served(lab: Lab, count: int) -> Counter[str]:
    """Dispatch ``count`` more; returns how many of them went to each tenant."""
    before = len(lab.names("q"))
    for _ in range(count):
        lab.store.dispatch(1, ["q"], 10**6, 1)
    return Counter(name.lstrip("nd")[0] for name in lab.names("q")[before:])


@quick
@given(
    tasks=st.lists(
        st.tuples(st.sampled_from(TENANTS), st.sampled_from([0.5, 1.0, 4.0, 30.0]), st.booleans()),
        max_size=25,
    ),
    weights=st.tuples(*[st.sampled_from([0.5, 1.0, 3.0])] * 3),
)
def test_the_order_of_the_rest_is_as_if_the_removed_had_never_come(
    make_lab: Callable[..., Lab],
    tasks: list[tuple[str, float, bool]],
    weights: tuple[float, ...],
) -> None:
    orders = []
    for never in (False, True):
        lab = make_lab(policy="wfq")
        for tenant, weight in zip(TENANTS, weights, strict=True):
            lab.store.set_weight(tenant.encode(), weight)
        chosen = [(i, *each) for i, each in enumerate(tasks) if not (never and each[2])]
        submit(lab.store, *[task(f"n{i}", tenant, cost=cost) for i, tenant, cost, _ in chosen])
        admit_all(lab.store, arrivals=[(1_000, i) for i, *_ in chosen])
        if not never:
            gone = [f"n{i}" for i, (_, _, removed) in enumerate(tasks) if removed]
            assert set(lab.store.revoke(gone).values()) <= {"revoked"}
        dispatch_all(lab.store)
        orders.append(lab.names("q"))
    assert orders[0] == orders[1]


@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data(), weights=st.tuples(*[st.sampled_from([1.0, 2.0])] * 3))
def test_shares_hold_whatever_is_removed_on_the_way(
    make_lab: Callable[..., Lab], data: st.DataObject, weights: tuple[float, ...]
) -> None:
    """No tenant that waits all the while falls behind another by more than a task of each."""
    lab = make_lab(policy="wfq")
    left = {}
    for tenant, weight in zip(TENANTS, weights, strict=True):
        lab.store.set_weight(tenant.encode(), weight)
        left[tenant] = wait(lab, 60, tenant)
    service = Counter[str]()
    for _ in range(6):
        service += served(lab, 8)
        done = set(lab.names("q"))
        for tenant, names in left.items():
            waiting = [name for name in names if name not in done]
            number = data.draw(st.integers(0, min(5, max(0, len(waiting) - 20))))
            gone = data.draw(st.permutations(waiting))[:number]
            assert set(lab.store.revoke(gone).values()) <= {"revoked"}
            left[tenant] = [name for name in waiting if name not in gone]
    each = [service[tenant] / weight for tenant, weight in zip(TENANTS, weights, strict=True)]
    assert max(each) - min(each) <= 2


def test_a_costly_task_saves_up_no_service_for_its_tenant(lab: Lab) -> None:
    """Its tenant lets it wait, revokes it, and is then served like the others, not before them."""
    wait(lab, 1, "a", cost=1_000, name="d")
    wait(lab, 200, "b")
    wait(lab, 200, "c")
    assert served(lab, 100)["a"] == 0
    wait(lab, 100, "a")
    assert lab.store.revoke(["da0"]) == {"da0": "revoked"}
    shares = served(lab, 60)
    assert 19 <= shares["a"] <= 22
    assert abs(shares["b"] - shares["c"]) <= 1


def test_submitting_and_revoking_over_and_over_gains_nothing(lab: Lab) -> None:
    wait(lab, 300, "b")
    wait(lab, 300, "c")
    shares = Counter[str]()
    for turn in range(40):
        wait(lab, 1, "a", cost=500, name=f"d{turn}")
        shares += served(lab, 2)
        wait(lab, 1, "a", name=f"n{turn}")
        lab.store.revoke([f"d{turn}a0"])
        shares += served(lab, 1)
    got = Counter("a" if "a" in name else name[1] for name in lab.names("q"))
    assert got["a"] <= 120 / 3 + 2
    assert abs(got["b"] - got["c"]) <= 1


@pytest.mark.parametrize("back", [True, False])
def test_what_was_charged_gives_back_no_more_than_v(lab: Lab, back: bool) -> None:
    """A dispatched task that is removed, unread or given back, puts its tenant at V, not before."""
    wait(lab, 1, "a", cost=50)
    wait(lab, 20, "b")
    wait(lab, 20, "a", name="d")
    served(lab, 21)
    token = next(t for t, n in zip(lab.tokens("q"), lab.names("q"), strict=True) if n == "na0")
    if back:
        lab.store.give_back([Return(token)], 5)
    assert lab.store.revoke(["na0"]) == {"na0": "revoked"}
    view = lab.view()
    assert view.virtual["q"] == 50.0
    assert view.starts["q"][b"a"] == 50.0
    wait(lab, 20, "b", name="nn")
    shares = served(lab, 20)
    assert abs(shares["a"] - shares["b"]) <= 1


def test_a_tenant_without_work_keeps_no_start(lab: Lab) -> None:
    wait(lab, 3, "a")
    wait(lab, 3, "b")
    served(lab, 2)
    lab.store.purge(tenant=b"a")
    view = lab.view()
    assert set(view.starts["q"]) == {b"b"}
    assert [tenant for tenant, _ in view.heads["q"]] == [b"b"]


def test_over_two_queues_of_a_group_the_start_is_shared(lab: Lab) -> None:
    """The other queue's head moves with it, and the start stays while that one has work."""
    lab.store.regroup(1, {"q": "q", "p": "q"})
    submit(lab.store, task("da", "a", "q", cost=1_000), task("pa", "a", "p", cost=2.0))
    submit(lab.store, *[task(f"b{i}", "b", "q") for i in range(50)])
    admit_all(lab.store)
    lab.store.pause_queue("p")
    for _ in range(30):
        lab.store.dispatch(1, ["q", "p"], 10**6, 1)
    submit(lab.store, task("na", "a", "q"))
    admit_all(lab.store)
    lab.store.revoke(["da"])
    view = lab.view()
    start = view.starts["q"][b"a"]
    assert start == view.virtual["q"] - 1.0
    assert dict(view.heads["p"])[b"a"] == start + 2.0
    lab.store.revoke(["na"])
    assert lab.view().starts["q"][b"a"] == start
    lab.store.revoke(["pa"])
    assert b"a" not in lab.view().starts["q"]
