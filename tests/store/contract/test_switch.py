"""A policy switch is ranked anew in steps; whatever happens between two steps, nothing strands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.contract.lab import Lab, MemoryLab, RedisLab
from tests.store.contract.steps import (
    admit_all,
    announce,
    complete,
    dispatch_all,
    policy_of,
    rank,
    rerank_all,
    submit,
    task,
)
from tq_celery.errors import SettingsError, StoreError
from tq_celery.settings import Settings
from tq_celery.store.contract import Return

#: What may happen to a namespace whose switch is not finished.
EVENTS: dict[str, Callable[[Lab], Any]] = {
    "a delivery comes back": lambda lab: _give_back_first(lab, counted=False),
    "a delivery is lost": lambda lab: _lose(lab),
    "a delivery ends": lambda lab: lab.store.complete("w", [complete(lab.tokens("q")[0])]),
    "a task arrives": lambda lab: (submit(lab.store, *_fresh(lab)), admit_all(lab.store)),
    "one is dispatched": lambda lab: lab.store.dispatch(1, ["q"], 10**6, 1),
    "the tenant is paused": lambda lab: lab.store.pause_tenant(b"x"),
    "the tenant is resumed": lambda lab: lab.store.resume_tenant(b"x"),
    "the tenant is capped": lambda lab: lab.store.set_cap(b"x", 1),
    "the tenant is weighed": lambda lab: lab.store.set_weight(b"x", 7.0),
    "a part is ranked": lambda lab: _rank_a_part(lab),
    "the first waiting one is revoked": lambda lab: _remove_waiting(lab, 1),
    "some are revoked": lambda lab: _remove_waiting(lab, 3),
    "a tenant is purged": lambda lab: lab.store.purge(tenant=b"x"),
    "all are purged": lambda lab: lab.store.purge(),
}


def _fresh(lab: Lab) -> list[Any]:
    number = lab.view().counters["accepted:q"]
    return [task(f"f{number}", "x", priority=200), task(f"g{number}", "x")]


def _give_back_first(lab: Lab, counted: bool) -> None:
    if tokens := lab.tokens("q"):
        assert lab.store.give_back([Return(tokens[0], counted)], 5) == [True]


def _lose(lab: Lab) -> None:
    lab.store.renew(announce("w", "q"), 1_000)
    lab.store.read("w", {"q": 1}, 0)
    lab.lapse("w")
    lab.store.reclaim("w", 5, True, 500)


def _rank_a_part(lab: Lab) -> None:
    generation = int(lab.store.config()["generation"])
    for each in lab.store.stale(2)[:1]:
        ranks = [(m, rank(policy_of(lab.store), m)) for m, _ in each.members[:1]]
        lab.store.rerank(1, generation, each.queue, each.tenant, ranks)


def _remove_waiting(lab: Lab, every: int) -> None:
    found = [f.item for batch in lab.store.waiting() for f in batch]
    lab.store.remove(found[::every] if every > 1 else found[:1])


def seed(lab: Lab) -> None:
    """Three tenants with five tasks each, of which some are in flight, one tenant gated."""
    submit(lab.store, *[task(f"{t}{i}", t, priority=i) for i in range(5) for t in "xyz"])
    admit_all(lab.store)
    lab.store.set_cap(b"z", 1)
    assert lab.store.dispatch(1, ["q"], 4, 100).count == 4


def drain(lab: Lab) -> None:
    """Let everything run; afterwards nothing is left anywhere."""
    lab.store.resume_tenant(b"x")
    for tenant in (b"x", b"z"):
        lab.store.set_cap(tenant, None)
    for _ in range(50):
        rerank_all(lab.store)
        dispatch_all(lab.store)
        if not (tokens := lab.tokens("q")):
            break
        assert all(lab.store.complete("w", [complete(token) for token in tokens]))
    lab.store.close_obituaries(lab.store.read_obituaries("w", ["q"]))
    while mourned := lab.store.read_obituaries("w", ["q"]):
        lab.store.close_obituaries(mourned)
    view = lab.view()
    view.assert_conserved()
    assert view.nonempty() == {}
    ended = view.counters.get("completed:q", 0) + view.counters.get("revoked:q", 0)
    assert ended == view.counters["accepted:q"] == len(view.results)


@pytest.mark.parametrize("target", ["fifo", "priority", "wfq", "none"])
@pytest.mark.parametrize("event", EVENTS)
def test_one_event_before_the_first_rank(
    make_lab: Callable[..., Lab], event: str, target: str
) -> None:
    lab = make_lab(policy="edf")
    seed(lab)
    lab.store.set_policy(target)
    EVENTS[event](lab)
    lab.view().assert_conserved()
    drain(lab)


@pytest.mark.parametrize("event", EVENTS)
def test_one_event_in_the_middle(make_lab: Callable[..., Lab], event: str) -> None:
    lab = make_lab(policy="wfq")
    seed(lab)
    lab.store.set_policy("priority")
    for _ in range(3):
        _rank_a_part(lab)
    EVENTS[event](lab)
    lab.view().assert_conserved()
    drain(lab)


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    events=st.lists(st.sampled_from(sorted(EVENTS)), max_size=12),
    target=st.sampled_from(["fifo", "priority", "edf", "wfq", "none"]),
)
def test_any_events(make_lab: Callable[..., Lab], events: list[str], target: str) -> None:
    lab = make_lab(policy="wfq")
    seed(lab)
    lab.store.set_policy(target)
    for event in events:
        if event != "a delivery ends" or lab.tokens("q"):
            EVENTS[event](lab)
        lab.view().assert_conserved()
    drain(lab)


def test_ranks_of_the_new_policy_decide_afterwards(lab: Lab) -> None:
    """Once all are ranked the order is the new policy's alone."""
    submit(lab.store, *[task(f"n{i}", priority=i) for i in range(10)])
    admit_all(lab.store)
    lab.store.set_policy("priority")
    assert rerank_all(lab.store) >= 3
    dispatch_all(lab.store)
    assert lab.names("q") == [f"n{i}" for i in reversed(range(10))]


def arrive(lab: Lab, *names: str) -> None:
    """Admit tasks that came a second apart; the number behind a name's colon is its priority."""
    submit(lab.store, *[task(name, priority=int(name.partition(":")[2])) for name in names])
    admit_all(lab.store, arrivals=[(1_000 * n, n) for n in range(1, len(names) + 1)])


def test_ageing_is_switched_on_and_off_while_tasks_wait(make_lab: Callable[..., Lab]) -> None:
    """Two seconds a level, then off again; each switch reaches what waits (celery/kombu #166)."""
    lab = make_lab(policy="priority")
    arrive(lab, "a:0", "b:0", "c:0", "d:1", "e:1", "f:9", "g:0")
    lab.store.dispatch(1, ["q"], 10**6, 1)
    assert lab.names("q") == ["f:9"]
    assert lab.store.set_policy("priority", ageing=2.0) == 2
    assert lab.store.config()["ageing"] == "2.0"
    rerank_all(lab.store)
    lab.store.dispatch(1, ["q"], 10**6, 3)
    # d came 2 s after b and is worth 2 s more: of equal ranks the earlier arrival is first.
    assert lab.names("q") == ["f:9", "a:0", "b:0", "d:1"]
    assert lab.store.set_policy("priority") == 3
    assert lab.store.config()["ageing"] == ""
    rerank_all(lab.store)
    dispatch_all(lab.store)
    assert lab.names("q")[4:] == ["e:1", "c:0", "g:0"]


def test_the_ageing_of_a_namespace_is_seeded_once(make_lab: Callable[..., Lab]) -> None:
    """It joins no policy that is stored already: its tasks have ranks of another rule."""
    lab = make_lab(policy="priority", ageing=0.5)
    assert lab.store.config()["ageing"] == "0.5"
    assert lab.store.seed(Settings(policy="priority", ageing=7.0))["ageing"] == "0.5"


def test_an_ageing_does_not_join_a_policy_that_was_stored_without(
    make_lab: Callable[..., Lab],
) -> None:
    """A namespace from before the option: its waiting tasks are ranked strictly."""
    lab = make_lab(policy="priority")
    if isinstance(lab, RedisLab):
        lab.client.hdel(lab.keys.name("config"), "ageing")
    else:
        assert isinstance(lab, MemoryLab)
        del lab.store.ns.config["ageing"]
    assert "ageing" not in lab.store.seed(Settings(policy="priority", ageing=7.0))


def test_a_bad_ageing_changes_nothing(lab: Lab) -> None:
    before = lab.store.config()
    for bad in (0, -1.0, 1e8, float("nan")):
        with pytest.raises(SettingsError, match="ageing"):
            lab.store.set_policy("priority", "arrival", bad)
    assert lab.store.config() == before


def test_a_second_switch_waits_for_the_first(lab: Lab) -> None:
    submit(lab.store, task("n"))
    admit_all(lab.store)
    assert lab.store.set_policy("fifo") == 2
    with pytest.raises(StoreError, match="unfinished|earlier"):
        lab.store.set_policy("edf")
    rerank_all(lab.store)
    assert lab.store.set_policy("edf") == 3


def test_admission_under_the_old_ranks_is_refused(lab: Lab) -> None:
    """A leader that has not seen the switch moves nothing: it gets -1 and loads the policy."""
    submit(lab.store, task("n"), task("later", delay=60_000))
    lab.ripen()
    lab.store.set_policy("fifo")
    before = lab.view()
    assert lab.store.admit(1, 1, []) == lab.store.promote(1, 1, []) == -1
    assert lab.store.rerank(1, 1, "q", b"t", []) == -1
    before.fence = 1
    assert lab.view() == before
