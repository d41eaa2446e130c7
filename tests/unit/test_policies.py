"""One contract suite for every policy, and the sentences that each policy's own file promises."""

from __future__ import annotations

import math
import pickle
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tq_celery.errors import SettingsError
from tq_celery.policies.contract import MAX_RANK, Policy, Task
from tq_celery.policies.priority import LEAST_AGEING, MOST_AGEING
from tq_celery.policies.registry import (
    ORDERS_WITHIN,
    POLICIES,
    ageing_text,
    make_policy,
    stored_ageing,
)
from tq_celery.policies.wfq import finish_tag
from tq_celery.settings import Settings

EVERY = [
    make_policy(name, within)
    for name in POLICIES
    for within in (ORDERS_WITHIN if name == "wfq" else ("arrival",))
] + [
    make_policy(name, "priority", ageing)
    for name in ("priority", "wfq")
    for ageing in (LEAST_AGEING, MOST_AGEING)
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


ageings = st.integers(1, 10**10).map(lambda ms: ms / 1000)


@pytest.mark.parametrize("name", ["priority", "wfq"])
@given(
    ms=st.integers(0, 10**12),
    ageing=ageings,
    lower=st.integers(0, 254),
    levels=st.integers(1, 255),
)
def test_n_levels_are_worth_n_times_the_ageing_and_not_a_ms_more(
    name: str, ms: int, ageing: float, lower: int, levels: int
) -> None:
    """Low priority ages (celery/kombu #166). Both bounds are exact, for every ageing there is."""
    policy, upper = make_policy(name, "priority", ageing), min(255, lower + levels)
    worth = (upper - lower) * round(ageing * 1000)
    low = policy.rank(Task(ms, 1, lower, 0))
    assert low == policy.rank(Task(ms + worth, 1, upper, 0))
    assert policy.rank(Task(ms + worth - 1, 1, upper, 0)) < low
    assert low < policy.rank(Task(ms + worth + 1, 1, upper, 0))


@pytest.mark.parametrize("name", ["priority", "wfq"])
@given(task=tasks)
def test_without_ageing_priority_alone_decides(name: str, task: Task) -> None:
    assert make_policy(name, "priority", None) == make_policy(name, "priority")
    strict = (255 - min(max(task.priority, 0), 255)) * 10**13 + min(task.ms, 10**13 - 1)
    assert make_policy(name, "priority").rank(task) == strict


@pytest.mark.parametrize(
    ("name", "within"), [("fifo", "priority"), ("edf", "priority"), ("none", "priority"),
                         ("wfq", "arrival"), ("wfq", "deadline"), ("priority", "deadline")]
)  # fmt: skip
@given(task=tasks)
def test_only_priority_reads_the_ageing(name: str, within: str, task: Task) -> None:
    aged, plain = make_policy(name, within, 30.0), make_policy(name, within)
    old = task._replace(ms=min(task.ms, 10**12), priority=1)
    assert (aged.rank(old) == plain.rank(old)) == (name != "priority")


@pytest.mark.parametrize("bad", [0, 0.0009, 1.1e7, -1, math.nan, math.inf, "30s"])
def test_a_bad_ageing_is_refused_with_its_range(bad: Any) -> None:
    with pytest.raises(SettingsError, match=r"ageing: .*0.001 to 1e\+07, or none for strict"):
        make_policy("priority", "arrival", bad)


@given(ageing=st.none() | ageings)
def test_an_ageing_is_stored_exactly(ageing: float | None) -> None:
    assert stored_ageing({"ageing": ageing_text(ageing)}) == ageing


def test_what_is_stored_without_an_ageing_is_strict_and_what_is_no_number_an_error() -> None:
    assert stored_ageing({}) is None
    with pytest.raises(SettingsError, match="ageing: 'soon' is not allowed"):
        stored_ageing({"ageing": "soon"})


def test_the_setting_has_the_range_of_the_policy() -> None:
    for good in (LEAST_AGEING, MOST_AGEING):
        assert Settings(ageing=good).ageing == good
    for bad in (LEAST_AGEING * 0.99, MOST_AGEING * 1.01):
        with pytest.raises(SettingsError):
            Settings(ageing=bad)


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
