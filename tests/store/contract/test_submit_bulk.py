"""A batch in one script call leaves what its tasks leave when they are submitted one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.store.contract.lab import Lab
from tests.store.contract.steps import admit_all, digest, dispatch_all, submit, task
from tests.store.contract.view import differences
from tq_celery.errors import LateError
from tq_celery.store.contract import Limits, Receipt, Submission
from tq_celery.store.record import TaskKey

#: Few names and places, so that repeats, duplicates and full queues meet in one batch.
TASKS = st.tuples(
    st.sampled_from("abcdefgh"),
    st.sampled_from(["t", "u"]),
    st.sampled_from(["q", "p"]),
    st.fixed_dictionaries(
        {
            "digest": st.sampled_from([digest("one"), digest("two")]),
            "priority": st.sampled_from([0, 255]),
            "delay": st.sampled_from([None, 60_000]),
            "deadline_in": st.sampled_from([None, 5]),
        }
    ),
    st.sampled_from(["", "", "current", "stale"]),
)
LIMITS = st.builds(
    Limits,
    namespace=st.sampled_from([None, 3]),
    queue=st.sampled_from([None, 2]),
    tenant=st.sampled_from([None, 3]),
    payload=st.sampled_from([None, 11, 200]),
)


def prepare(lab: Lab) -> Any:
    """Leave one delivery, one waiting task, one settled key and one revoked id."""
    submit(lab.store, task("run", "t", "q"))
    admit_all(lab.store)
    dispatch_all(lab.store)
    (token,) = lab.tokens("q")
    submit(lab.store, task("a", "t", "q", digest=digest("one")))
    lab.store.revoke(["f"])
    return token


def made(drawn: Any, token: Any) -> Submission:
    name, tenant, queue, options, parent = drawn
    if parent:
        held = token if parent == "current" else token._replace(epoch=token.epoch + 1)
        options = {**options, "parent": held, "key": TaskKey(name, retries=1)}
    return task(name, tenant, queue, **options)


def said(result: Receipt | Exception) -> str:
    if isinstance(result, Receipt):
        return result.status
    return f"{type(result).__name__}: {result}"


def one_by_one(lab: Lab, tasks: list[Submission], limits: Limits) -> list[str]:
    results: list[str] = []
    for each in tasks:
        try:
            results.append(said(lab.store.submit(each, limits)))
        except Exception as error:
            results.append(said(error))
    return results


@hypothesis.settings(max_examples=40)
@hypothesis.given(drawn=st.lists(TASKS, min_size=3, max_size=14), limits=LIMITS)
def check_equal(make: Callable[..., Lab], drawn: list[Any], limits: Limits) -> None:
    single, bulk = make(), make()
    one, other = prepare(single), prepare(bulk)
    tasks = [made(each, one) for each in drawn]
    words = one_by_one(single, tasks, limits)
    results = bulk.store.submit_many([made(each, other) for each in drawn], limits)
    assert [said(each) for each in results] == words
    assert differences(single.view(), bulk.view()) == {}


def test_a_batch_equals_its_tasks_one_by_one(make_lab: Callable[..., Lab]) -> None:
    """Results, structures and counters; repeats, limits, parents and revoked ids among them."""
    check_equal(make_lab)


@pytest.mark.parametrize("bulk", [False, True])
def test_after_its_last_moment_nothing_is_taken(lab: Lab, bulk: bool) -> None:
    """celery/celery #4296: a server that was frozen comes to a call whose caller has gone."""
    (receipt,) = submit(lab.store, task("a"))
    before = lab.view()
    late = Limits(not_after=receipt.at - 1)
    with pytest.raises(LateError) as caught:
        if bulk:
            lab.store.submit_many([task("b"), task("c", delay=5)], late)
        else:
            lab.store.submit(task("b"), late)
    assert caught.value.at >= receipt.at
    assert lab.view() == before
    assert lab.store.submit(task("b"), Limits(not_after=receipt.at + 60_000)).status == "accepted"
