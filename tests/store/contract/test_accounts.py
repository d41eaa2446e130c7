"""What tenants were served, flows of queues, deadlines, duplicates, and the time of the slots."""

from __future__ import annotations

from typing import Any

import pytest

from tests.store.contract.lab import Lab, MemoryLab
from tests.store.contract.steps import (
    admit_all,
    announce,
    complete,
    digest,
    dispatch_all,
    promote_all,
    submit,
    task,
)
from tq_celery.errors import DuplicateTaskError, FencedError
from tq_celery.states import Outcome
from tq_celery.store.accounts_contract import MOST_SERVED, Served
from tq_celery.store.contract import Delivery, Return, Submission

LEASE = 600_000


def deliver(lab: Lab, *tasks: Submission, waited: int = 0) -> list[Delivery]:
    """Take tasks to a worker; they came ``waited`` ms ago."""
    submit(lab.store, *tasks)
    since = lab.store.accounts().now - waited
    admit_all(lab.store, arrivals=[(since, number) for number in range(len(tasks))])
    dispatch_all(lab.store)
    lab.store.renew(announce("w", "q"), LEASE)
    return list(lab.store.read("w", {"q": 1_000}, 0))


def served(lab: Lab) -> dict[bytes, tuple[int, int]]:
    """Return microseconds and waits by tenant."""
    return {tenant: each[:2] for tenant, each in lab.store.accounts().served.items()}


def lead(lab: Lab) -> None:
    lab.store.elect("me", 60_000)


def test_a_tenant_is_served_what_its_tasks_ran(lab: Lab) -> None:
    """Microseconds add up exactly; what cannot be is no service."""
    ran = {"a": 1.5, "b": 0.0004, "c": 0.0006, "d": -7.0, "e": 2_000.0, "f": None}
    tenants = dict.fromkeys("abcd", "acme") | {"e": "globex", "f": "never started"}
    found = deliver(lab, *[task(name, tenants[name]) for name in ran])
    lab.store.complete("w", [complete(d.token, ran=ran[d.key[6:].decode()]) for d in found])
    assert served(lab) == {
        b"acme": (1_501, 4),
        b"globex": (2_000_000, 1),
        b"never started": (0, 1),
    }
    assert lab.view().flows["service:q"] == 2_001_501


@pytest.mark.parametrize("finished", [float("inf"), float("nan"), 1e300])
def test_a_senseless_time_is_no_service(lab: Lab, finished: float) -> None:
    """One such end would spoil the sum for ever. Seen to fail without the bound."""
    first, second = deliver(lab, task("a", "acme"), task("b", "acme"))
    lab.store.complete("w", [complete(first.token)._replace(finished=finished)])
    lab.store.complete("w", [complete(second.token, ran=3.0)])
    assert served(lab) == {b"acme": (3_000, 2)}


def test_a_wait_ends_with_the_dispatch(lab: Lab) -> None:
    """It is counted when the task ends, and for one that was dispatched alone."""
    (found,) = deliver(lab, task("a", "acme"), waited=9_000)
    assert served(lab) == {}
    lab.store.complete("w", [complete(found.token)])
    submit(lab.store, task("revoked", "globex"))
    lab.store.purge()
    each = lab.store.accounts().served[b"acme"]
    assert 9_000 <= each.waited < 60_000
    assert served(lab) == {b"acme": (1_000, 1)}


def test_a_clock_that_steps_back_makes_no_wait(lab: Lab) -> None:
    (found,) = deliver(lab, task("a", "acme"), waited=-90_000)
    lab.store.complete("w", [complete(found.token)])
    assert lab.store.accounts().served[b"acme"].waited == 0


def test_a_clock_set_back_leaves_no_longest_wait_of_an_hour_to_come(lab: Lab) -> None:
    """Seen to fail: the longest wait of a wrong time stayed the longest until that time came."""
    hour = lab.store.accounts().now // 3_600_000
    for later in (1_000, 1_001):
        set_longest(lab, f"longest{(hour + later) % 2}", (hour + later) * 10**10 + 77_000)
    (found,) = deliver(lab, task("a"), waited=9_000)
    lab.store.complete("w", [complete(found.token)])
    kept = lab.store.accounts().now // 3_600_000
    of, wait = divmod(longest(lab, f"longest{kept % 2}"), 10**10)
    assert of in (hour, kept)
    assert 9_000 <= wait < 60_000


def set_longest(lab: Lab, word: str, value: int) -> None:
    if isinstance(lab, MemoryLab):
        lab.store.ns.counters[word, "q"] = value
    else:
        store: Any = lab.store
        store.client.hset(store.keys.name("counters"), f"{word}:q", value)


def longest(lab: Lab, word: str) -> int:
    if isinstance(lab, MemoryLab):
        return lab.store.ns.counters[word, "q"]
    store: Any = lab.store
    return int(store.client.hget(store.keys.name("counters"), f"{word}:q"))


@pytest.mark.parametrize(
    "outcome, ran, expected",
    [
        (Outcome.COMPLETED, 27.0, {"due:q": 1}),
        (Outcome.COMPLETED, 27.001, {"due:q": 1, "missed:q": 1}),
        (Outcome.FAILED, 28.0, {"due:q": 1, "missed:q": 1}),
        (Outcome.EXPIRED, None, {"due:q": 1}),
        (Outcome.RETRIED, 28.0, {}),
        (Outcome.REPLACED, 28.0, {}),
    ],
)
def test_on_the_deadline_is_in_time(
    lab: Lab, outcome: Outcome, ran: float | None, expected: dict[str, int]
) -> None:
    """It is judged once, when the work ends: a retry goes on with the same deadline."""
    (found,) = deliver(lab, task("a", deadline=77))
    lab.store.complete("w", [complete(found.token, outcome, ran)])
    (without,) = deliver(lab, task("b"))
    lab.store.complete("w", [complete(without.token, outcome, ran)])
    assert deadlines(lab) == expected


def test_the_dead_and_the_revoked_are_apart(lab: Lab) -> None:
    (found,) = deliver(lab, task("a", deadline=77))
    lab.store.bury("w", found.token, "why")
    submit(lab.store, task("b", deadline=77))
    lab.store.purge()
    assert deadlines(lab) == {}


def deadlines(lab: Lab) -> dict[str, int]:
    return {name: n for name, n in lab.view().flows.items() if name in ("due:q", "missed:q")}


def test_duplicates_are_counted(lab: Lab) -> None:
    (found,) = deliver(lab, task("a"))
    submit(lab.store, task("a"))
    with pytest.raises(DuplicateTaskError):
        submit(lab.store, task("a", digest=b"another message."))
    assert lab.view().flows["repeated:q"] == 2
    assert lab.store.complete("w", [complete(found.token)]) == [True]
    submit(lab.store, task("a", digest=digest("settled")))
    assert lab.store.complete("w", [complete(found.token)] * 2) == [False, False]
    assert not lab.store.bury("w", found.token, "why")
    flows = lab.view().flows
    assert (flows["repeated:q"], flows["resettled:q"]) == (3, 3)
    assert served(lab) == {b"t": (1_000, 1)}


def test_flows(lab: Lab) -> None:
    """Every move is counted by its queue, in the step that makes it."""
    lead(lab)
    submit(lab.store, task("late", delay=60_000))
    lab.ripen()
    assert promote_all(lab.store) == 1
    found = deliver(lab, *[task(f"n{number}") for number in range(4)])
    lab.store.give_back([Return(found[0].token)], 3)
    lab.lapse("w")
    assert lab.store.reclaim("w", 9, True, 100) == 4
    dispatch_all(lab.store)
    lab.store.renew(announce("v", "q"), LEASE)
    lab.store.read("v", {"q": 2}, 0)
    lab.store.withdraw("v")
    assert lab.store.reclaim_orphans("q", -1_000, 500) == 3
    assert lab.view().flows == {
        "admitted:q": 4,
        "promoted:q": 1,
        "returned:q": 3,
        "reclaimed:q": 7,
        "capacity:q": 10**9,
    }


def test_without_a_policy_admissions_are_counted_too(lab: Lab) -> None:
    lead(lab)
    lab.store.set_policy("none")
    submit(lab.store, task("a"), task("b", delay=60_000))
    admit_all(lab.store)
    lab.ripen()
    promote_all(lab.store)
    assert lab.view().flows == {"admitted:q": 1, "promoted:q": 1}


# -- what the leader does ------------------------------------------------------------------------


def test_who_is_not_shown_is_counted_as_other_too(lab: Lab) -> None:
    """So the two of them never count the same task, and neither ever falls."""
    lead(lab)
    first, second, third, fourth = deliver(lab, *[task(f"n{n}", "acme") for n in range(4)])
    steps: list[tuple[Delivery, Any, int, int]] = [
        (first, None, 1_000, 1_000),
        (second, "shown", 2_000, 1_000),
        (third, "hidden", 3_000, 2_000),
        (fourth, "shown", 4_000, 2_000),
    ]
    for delivery, change, micros, other in steps:
        if change:
            lab.store.account(1, 0, 0, 0, {b"acme": change})
        lab.store.complete("w", [complete(delivery.token)])
        assert served(lab)[b"acme"][0] == micros
        flows = lab.view().flows
        assert (flows["other:service"], flows["other:waits"]) == (other, other // 1_000)


def test_a_record_may_begin_at_zero(lab: Lab) -> None:
    lead(lab)
    lab.store.account(1, 0, 0, 0, {b"acme": "shown"})
    (each,) = lab.store.accounts().served.items()
    assert each[0] == b"acme"
    assert each[1][:3] == (0, 0, 0)
    assert each[1].shown


def test_a_record_is_forgotten_unless_its_tenant_has_tasks(lab: Lab) -> None:
    lead(lab)
    found, _ = deliver(lab, task("a", "acme"), task("g", "globex"))
    lab.store.account(1, 0, 0, 0, {b"acme": "shown", b"globex": "shown"})
    lab.store.complete("w", [complete(found.token)])
    lab.store.account(1, 0, 0, 0, {b"acme": "forgotten", b"globex": "forgotten"})
    accounts = lab.store.accounts()
    assert set(accounts.served) == accounts.live == {b"globex"}


def test_there_are_only_so_many_records(lab: Lab) -> None:
    """A hundred thousand tenants that come once leave no field each behind."""
    lead(lab)
    names = [b"tenant %d" % number for number in range(MOST_SERVED - 1)]
    for start in range(0, len(names), 500):
        part: Any = dict.fromkeys(names[start : start + 500], "hidden")
        lab.store.account(1, 0, 0, 0, part)
    found = deliver(lab, *[task(name, name) for name in ("one", "two", "three")])
    lab.store.complete("w", [complete(each.token) for each in found])
    kept = lab.store.accounts().served
    assert len(kept) == MOST_SERVED
    assert sum(each.micros for each in kept.values()) == 1_000
    assert lab.view().flows["other:service"] == lab.view().flows["service:q"] == 3_000


def test_the_time_of_the_slots(lab: Lab) -> None:
    """Time since the last call counts, of whichever leader, up to a bound."""
    lead(lab)
    assert lab.store.account(1, 4, 3, 10_000, {}) == 0
    pass_time(lab, 4_000)
    passed = lab.store.account(1, 4, 3, 10_000, {})
    assert 4_000 <= passed < 10_000
    pass_time(lab, 60_000)
    assert lab.store.account(1, 2, 0, 10_000, {}) == 10_000
    assert slot_time(lab) == (4 * passed + 20_000, 3 * passed)
    pass_time(lab, -60_000)
    assert lab.store.account(1, 4, 3, 10_000, {}) == 0


def pass_time(lab: Lab, ms: int) -> None:
    """Let the last call have been longer ago."""
    if isinstance(lab, MemoryLab):
        lab.store.ns.accounted -= ms
    else:
        store: Any = lab.store
        store.client.decrby(store.keys.name("accounted"), ms)


def slot_time(lab: Lab) -> tuple[int, int]:
    if isinstance(lab, MemoryLab):
        counters = lab.store.ns.counters
        return counters["slot_ms", "offered"], counters["slot_ms", "busy"]
    store: Any = lab.store
    raw = store.client.hmget(store.keys.name("counters"), "slot_ms:offered", "slot_ms:busy")
    return int(raw[0]), int(raw[1])


def test_slots_are_busy_up_to_what_a_worker_holds(lab: Lab) -> None:
    deliver(lab, *[task(f"n{n}") for n in range(6)])
    lab.store.renew(announce("idle", "q", slots=2), LEASE)
    lab.store.renew(announce("lapsed", "q", slots=9), LEASE)
    lab.lapse("lapsed")
    accounts = lab.store.accounts()
    assert (accounts.slots, accounts.busy) == (6, 4)


def test_settings_make_a_tenant_configured(lab: Lab) -> None:
    lab.store.set_weight(b"heavy", 2.0)
    lab.store.set_cap(b"capped", 1)
    lab.store.pause_tenant(b"paused")
    assert sorted(lab.store.accounts().configured) == [b"capped", b"heavy", b"paused"]
    assert lab.store.accounts().served == {}


def test_a_deposed_leader_keeps_no_accounts(lab: Lab) -> None:
    lead(lab)
    lab.store.account(2, 0, 0, 0, {})
    with pytest.raises(FencedError):
        lab.store.account(1, 4, 4, 10_000, {b"acme": "shown"})
    assert served(lab) == {}
    assert Served() == (0, 0, 0, 0, 0)
