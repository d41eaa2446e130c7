"""One contract suite for every policy, and the sentences that each policy's own file promises."""

from __future__ import annotations

import math
import pickle
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tq_celery.errors import SettingsError
from tq_celery.policies.contract import MAX_RANK, Policy, Task
from tq_celery.policies.registry import ORDERS_WITHIN, POLICIES, make_policy
from tq_celery.policies.wfq import finish_tag
from tq_celery.settings import Settings

EVERY = [
    make_policy(name, within)
    for name in POLICIES
    for within in (ORDERS_WITHIN if name == "wfq" else ("arrival",))
]
each_policy = pytest.mark.parametrize("policy", EVERY, ids=repr)

#: Whatever a record can hold, and what lies beyond where tasks are declared.
tasks = st.builds(
    Task,
    ms=st.integers(0, MAX_RANK),
    cost=st.floats(1e-6, 1e9),
    priority=st.integers(-5, 300),
    deadline=st.integers(0, MAX_RANK),
)
#: The clocks that exist: until the year 2286.
present = st.integers(0, 10**13 - 1)


@each_policy
@given(task=tasks)
def test_a_rank_is_exact_in_a_redis_score(policy: Policy, task: Task) -> None:
    rank = policy.rank(task)
    assert not math.isnan(rank)
    assert 0 <= rank <= MAX_RANK
    assert int(rank) == rank == float(repr(float(rank)))


@each_policy
@given(task=tasks)
def test_a_policy_is_pure(policy: Policy, task: Task) -> None:
    """The same task has the same rank, now and later, here and in another process."""
    copy: Policy = pickle.loads(pickle.dumps(policy))
    assert policy.rank(task) == policy.rank(task) == copy.rank(task)


@each_policy
def test_a_policy_reads_no_clock_and_no_dice(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> float:
        raise AssertionError("a policy reads neither clock nor dice")

    for module, names in ((time, ("time", "monotonic", "time_ns")), (random, ("random",))):
        for name in names:
            monkeypatch.setattr(module, name, refuse)
    policy.rank(Task(5, 1.0, 0, MAX_RANK))


@each_policy
@given(
    ms=present, later=st.integers(0, 10**6), cost=st.floats(1e-6, 1e9), priority=st.integers(0, 255)
)
def test_of_two_equal_tasks_the_later_never_runs_first(
    policy: Policy, ms: int, later: int, cost: float, priority: int
) -> None:
    early, late = (Task(at, cost, priority, MAX_RANK) for at in (ms, ms + later))
    assert policy.rank(early) <= policy.rank(late)


@each_policy
@given(ms=present, one=st.floats(1e-6, 1e9), other=st.floats(1e-6, 1e9))
def test_cost_decides_between_tenants_and_not_between_a_tenant_s_tasks(
    policy: Policy, ms: int, one: float, other: float
) -> None:
    assert policy.rank(Task(ms, one, 3, 9)) == policy.rank(Task(ms, other, 3, 9))


@pytest.mark.parametrize("policy", [make_policy("priority"), make_policy("wfq", "priority")])
@given(
    ms=present,
    other=present,
    urgent=st.integers(1, 255),
    less=st.integers(1, 255),
)
def test_a_higher_priority_runs_first_whenever_it_came(
    policy: Policy, ms: int, other: int, urgent: int, less: int
) -> None:
    """Higher is more urgent, over the whole range and for every clock (celery/celery #4028)."""
    lower = max(0, urgent - less)
    assert policy.rank(Task(ms, 1, urgent, 0)) < policy.rank(Task(other, 1, lower, 0))


@pytest.mark.parametrize("policy", [make_policy("edf"), make_policy("wfq", "deadline")])
@given(ms=present, other=present, deadline=st.integers(0, MAX_RANK - 1))
def test_an_earlier_deadline_runs_first_and_none_runs_last(
    policy: Policy, ms: int, other: int, deadline: int
) -> None:
    mine = policy.rank(Task(ms, 1, 0, deadline))
    assert mine < policy.rank(Task(other, 1, 255, deadline + 1))
    assert mine < policy.rank(Task(other, 1, 255, MAX_RANK))


@pytest.mark.parametrize("name", ["fifo", "wfq", "none"])
@given(one=tasks, ms=present)
def test_arrival_alone_decides(name: str, one: Task, ms: int) -> None:
    policy = make_policy(name)
    assert policy.rank(one._replace(ms=ms)) == ms


def test_what_decides_between_tenants() -> None:
    between = {name: make_policy(name).between for name in POLICIES}
    assert between == {
        "fifo": "rank",
        "priority": "rank",
        "edf": "rank",
        "wfq": "fair",
        "none": "none",
    }
    assert all(make_policy(name).name == name for name in POLICIES)


@pytest.mark.parametrize(
    ("given", "meant"), [("wfk", "wfq"), ("FIFO", "fifo"), ("priorities", "priority")]
)
def test_an_unknown_policy_is_refused_with_the_nearest_name(given: str, meant: str) -> None:
    """A typo is an error at start, never the default in silence (celery/celery #7633)."""
    with pytest.raises(SettingsError) as refused:
        make_policy(given)
    text = str(refused.value)
    assert repr(given) in text
    assert "fifo, priority, edf, wfq, none" in text
    assert f"did you mean '{meant}'" in text


@pytest.mark.parametrize("name", POLICIES)
def test_an_unknown_order_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="arrival, priority, deadline.*did you mean 'deadline'"):
        make_policy(name, "deadlines")


def test_what_resembles_nothing_gets_no_advice() -> None:
    with pytest.raises(SettingsError) as refused:
        make_policy("\x00")
    assert "did you mean" not in str(refused.value)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("within", ORDERS_WITHIN)
def test_every_policy_that_exists_can_be_set(name: str, within: str) -> None:
    settings = Settings(policy=name, order_within=within)
    assert make_policy(settings.policy, settings.order_within).name == name


@given(
    start=st.floats(0, 1e15),
    cost=st.floats(1e-6, 1e9),
    weight=st.floats(1e-3, 1e6),
    heavier=st.floats(1.0, 1e3),
)
def test_a_finish_is_never_before_its_start_and_weight_brings_it_nearer(
    start: float, cost: float, weight: float, heavier: float
) -> None:
    finish = finish_tag(start, cost, weight, paid=False)
    assert start <= finish_tag(start, cost, weight * heavier, paid=False) <= finish
    assert math.isfinite(finish)
    assert finish_tag(start, cost, weight, paid=True) == start
