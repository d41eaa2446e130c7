"""Revoking, purging and removing: what waits leaves every structure at once, and only that.

Seen to fail: each with its line taken out of ``remove.lua`` or ``pull.lua`` (the counters, the
heads, the gated set, the obituary, the unread check), and the marks with theirs out of
``submit.lua``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.store.contract.lab import Lab, RedisLab
from tests.store.contract.steps import (
    admit_all,
    announce,
    complete,
    dispatch_all,
    policy_of,
    rank,
    stamped,
    submit,
    task,
)
from tests.store.contract.stopping_steps import STATES, assert_empty, bring, bury_the_dead
from tq_celery.states import Outcome
from tq_celery.store.contract import Admission, Limits, Return, Submission
from tq_celery.store.record import TaskKey


@pytest.mark.parametrize("state", STATES)
def test_what_waits_is_removed_at_once_and_told(lab: Lab, state: str) -> None:
    bring(lab, state, "n", "m")
    assert lab.store.revoke(["n"]) == {"n": "revoked"}
    view = lab.view()
    view.assert_conserved()
    assert view.counters == {"accepted:q": 2, f"{state}:q": 1, "revoked:q": 1}
    assert [result[:4] for result in view.results] == [(b"0.0.0.n", "q", b"t", "revoked")]
    assert view.obituary == {"q": [(b"0.0.0.n", "revoked")]}
    assert view.done == {b"0.0.0.n"}
    assert lab.store.revoke(["m"]) == {"m": "revoked"}
    assert bury_the_dead(lab) == [("revoked", "revoked")] * 2
    assert_empty(lab)


@pytest.mark.parametrize("state", STATES)
def test_the_obituary_has_the_message(lab: Lab, state: str) -> None:
    """Chords and errbacks are in it; the payload stays until it has been written."""
    bring(lab, state, "n")
    lab.store.revoke(["n"], reason="a reason")
    (obituary,) = lab.store.read_obituaries("w", ["q"])
    assert (obituary.key, obituary.outcome, obituary.reason, obituary.payload) == (
        b"0.0.0.n", Outcome.REVOKED, "a reason", b"payload of n",
    )  # fmt: skip


def test_what_a_worker_has_is_the_worker_s(lab: Lab) -> None:
    """It is told of the mark when the task comes its way again."""
    bring(lab, "running", "n")
    before = lab.view()
    assert lab.store.revoke(["n"]) == {"n": "dispatched"}
    before.revoked = {"n"}
    assert lab.view() == before
    (token,) = lab.tokens("q")
    lab.store.give_back([Return(token)], 5)
    dispatch_all(lab.store)
    (again,) = lab.store.read("w", {"q": 1}, 0)
    assert (again.revoked, again.payload) == (True, b"payload of n")


def test_only_the_revoked_ones_are_marked_in_a_fetch(lab: Lab) -> None:
    bring(lab, "running", "a", "b", "c")
    lab.store.revoke(["b", "x"])
    lab.store.give_back([Return(token) for token in lab.tokens("q")], 5)
    dispatch_all(lab.store)
    found = {each.key: each.revoked for each in lab.store.read("w", {"q": 5}, 0)}
    assert found == {b"0.0.0.a": False, b"0.0.0.b": True, b"0.0.0.c": False}


@pytest.mark.parametrize("delay", [None, 60_000])
def test_an_id_that_is_not_submitted_yet_is_remembered(lab: Lab, delay: int | None) -> None:
    assert lab.store.revoke(["n"]) == {"n": "unknown"}
    receipts = submit(lab.store, task("n", delay=delay), task("m"))
    assert [receipt.status for receipt in receipts] == ["accepted", "accepted"]
    view = lab.view()
    view.assert_conserved()
    assert view.counters == {"accepted:q": 2, "revoked:q": 1, "submitted:q": 1}
    assert submit(lab.store, task("n"))[0].status == "repeat"
    lab.store.revoke(["m"])
    assert bury_the_dead(lab) == [("revoked", "revoked")] * 2
    assert_empty(lab)


def test_a_marked_retry_ends_and_its_parent_is_superseded(lab: Lab) -> None:
    bring(lab, "running", "n")
    (token,) = lab.tokens("q")
    lab.store.revoke(["n"])
    child = Submission(TaskKey("n", retries=1), "q", b"t", b"p", b"d" * 16, parent=token)
    assert lab.store.submit(child, Limits()).status == "accepted"
    assert lab.view().superseded == {"q": 1}
    assert lab.store.complete("w", [complete(token, Outcome.RETRIED)]) == [True]
    assert bury_the_dead(lab) == [("revoked", "revoked")]
    assert_empty(lab)


def test_a_mark_ends(lab: Lab) -> None:
    lab.store.revoke(["n"], expires=1)
    if isinstance(lab, RedisLab):
        time.sleep(0.005)
        assert not lab.client.exists(lab.keys.name("revoked")), "the set ends with its last mark"
    else:
        lab.store.now += 2
    submit(lab.store, task("n"))
    assert lab.view().counters == {"accepted:q": 1, "submitted:q": 1}


def test_a_mark_that_has_ended_stops_nothing_that_comes_later(lab: Lab) -> None:
    """Although others of the set still last."""
    bring(lab, "running", "n")
    lab.store.revoke(["m", "o"])
    lab.store.revoke(["n"], expires=20)
    if isinstance(lab, RedisLab):
        time.sleep(0.03)
    else:
        lab.store.now += 30
    lab.store.give_back([Return(lab.tokens("q")[0])], 5)
    dispatch_all(lab.store)
    assert [each.revoked for each in lab.store.read("w", {"q": 1}, 0)] == [False]


def test_marks_are_bounded(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("tq_celery.store.stopping", "tq_celery.store.memory.stop"):
        monkeypatch.setattr(f"{module}.MAX_MARKS", 3)
    for i in range(5):
        lab.store.revoke([f"n{i}"], expires=10_000 + i)
    assert lab.view().revoked == {"n2", "n3", "n4"}


@pytest.mark.parametrize("change", [{"retries": 1}, {"nesting": 1}, {"generation": 1}])
def test_the_newest_key_of_an_id_is_found(lab: Lab, change: dict[str, Any]) -> None:
    """Also while an earlier one of the same id runs: that one goes on."""
    bring(lab, "running", "n")
    (token,) = lab.tokens("q")
    key = TaskKey("n")._replace(**change)
    submit(lab.store, task("n", key=key, delay=60_000, parent=token))
    assert lab.store.locate(["n"])["n"].key == key
    assert lab.store.revoke(["n"]) == {"n": "revoked"}
    assert lab.store.complete("w", [complete(token, Outcome.RETRIED)]) == [True]
    assert lab.view().counters == {"accepted:q": 2, "revoked:q": 1, "retried:q": 1}
    bury_the_dead(lab)
    assert_empty(lab)


@pytest.mark.parametrize("retries", [0, 1])
def test_an_ended_parent_does_not_take_the_id_off_its_retry(lab: Lab, retries: int) -> None:
    bring(lab, "running", "n", key=TaskKey("n", retries=retries))
    (token,) = lab.tokens("q")
    submit(lab.store, task("n", key=TaskKey("n", retries=retries + 1), parent=token))
    lab.store.complete("w", [complete(token, Outcome.RETRIED)])
    assert lab.view().ids == {"n": b"0.%d.0.n" % (retries + 1)}
    assert lab.store.revoke(["n"]) == {"n": "revoked"}
    assert lab.view().ids == {}


def test_a_requeued_dead_letter_can_be_revoked(lab: Lab) -> None:
    bring(lab, "running", "n")
    lab.store.bury("w", lab.tokens("q")[0], "a reason")
    bury_the_dead(lab)
    assert lab.store.requeue(lab.dead_entries()[0]) == "requeued"
    assert lab.store.locate(["n"])["n"].key == TaskKey("n", generation=1)
    assert lab.store.revoke(["n"]) == {"n": "revoked"}
    bury_the_dead(lab)
    assert lab.view().nonempty() == {}


def test_what_has_ended_is_unknown(lab: Lab) -> None:
    """Also while its obituary is still to be written."""
    bring(lab, "running", "n", "m")
    first, second = lab.tokens("q")
    lab.store.complete("w", [complete(first)])
    lab.store.bury("w", second, "a reason")
    before = lab.view()
    assert lab.store.locate(["n", "m"]) == {}
    assert lab.store.revoke(["n", "m"]) == {"n": "unknown", "m": "unknown"}
    before.revoked = {"n", "m"}
    assert lab.view() == before


def test_a_second_revoke_changes_nothing(lab: Lab) -> None:
    bring(lab, "pending", "n")
    lab.store.revoke(["n"])
    before = lab.view()
    assert lab.store.revoke(["n", "n"]) == {"n": "unknown"}
    assert lab.view() == before


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "name", ["*", "[a-z]?", "a\\b", "0.0.0.n", "ünï:{}\n", " ", "x" * 300, "\x00nul"]
)
def test_an_id_may_hold_any_character(make_lab: Callable[..., Lab], state: str, name: str) -> None:
    """Also where it has to be searched for among a tenant's tasks, by a pattern."""
    lab, digest = make_lab(policy="priority"), b"d" * 16
    bring(lab, state, name, "n", "another", digest=digest)
    assert lab.store.revoke([name]) == {name: "revoked"}
    assert lab.view().counters[f"{state}:q"] == 2


def test_stamps_revoke_what_carries_them(lab: Lab) -> None:
    def stamped(name: str, **stamps: Any) -> Submission:
        headers = {"stamped_headers": [*stamps], "stamps": stamps}
        payload = json.dumps({"headers": headers}).encode()
        return Submission(TaskKey(name), "q", b"t", payload, b"d" * 16)

    tasks = [stamped("a", batch="1"), stamped("b", batch=["2", "1"]), stamped("c", batch="2")]
    submit(lab.store, *tasks, stamped("d", other="1"), task("e"))
    admit_all(lab.store)
    lab.store.dispatch(1, ["q"], 1, 1)
    assert lab.store.revoke_stamped({"batch": ["1"]}) == 2
    assert lab.view().counters == {"accepted:q": 5, "revoked:q": 2, "pending:q": 3}
    submit(lab.store, stamped("f", batch="1"), stamped("g", batch="3"))
    admit_all(lab.store)
    dispatch_all(lab.store)
    lab.store.renew(announce("w", "q"), 60_000)
    found = {each.key[6:]: each.revoked for each in lab.store.read("w", {"q": 9}, 0)}
    assert found == {b"c": False, b"d": False, b"e": False, b"f": True, b"g": False}


def test_what_the_leader_has_read_and_not_filed_is_removed_once(lab: Lab) -> None:
    """The leader files what it has read; what is gone by then must not come back."""
    submit(lab.store, *[task(f"n{i}") for i in range(4)])
    policy = policy_of(lab.store)
    items = [
        Admission(each.entry, each.queue, each.tenant, rank(policy, record), record)
        for each in lab.store.read_ingress(b"", 10, 0).arrivals
        for record in [stamped(each.entry, each.record)]
    ]
    assert lab.store.revoke(["n1", "n2"]) == {"n1": "revoked", "n2": "revoked"}
    assert lab.store.admit(1, 1, items) == 2
    assert lab.store.admit(1, 1, items) == 0
    lab.view().assert_conserved()
    submit(lab.store, task("m"))
    assert admit_all(lab.store) == 1
    assert lab.view().counters == {"accepted:q": 5, "revoked:q": 2, "pending:q": 3}
