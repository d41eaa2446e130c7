"""Election, the fence, admission, promotion and dispatch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.store.contract.lab import Lab
from tests.store.contract.steps import (
    NO_LIMITS,
    admit_all,
    announce,
    complete,
    dispatch_all,
    promote_all,
    rerank_all,
    stamped,
    submit,
    task,
)
from tests.store.contract.view import differences
from tq_celery.errors import FencedError
from tq_celery.store.contract import Admission, Arrival, Promotion
from tq_celery.store.record import unpack_record

# -- election ----------------------------------------------------------------------------------


def test_one_owner_at_a_time(lab: Lab) -> None:
    """sibson/redbeat #127: a lock was renewed by whoever had once held it."""
    assert lab.store.elect("a", 60_000).epoch == 1
    refused = lab.store.elect("b", 60_000)
    assert refused.epoch == 0
    assert 0 < refused.remaining <= 60_000
    assert lab.store.extend("a", 1, 60_000)
    assert not lab.store.extend("b", 1, 60_000)
    assert not lab.store.extend("a", 2, 60_000)


def test_every_grant_has_a_later_epoch(lab: Lab) -> None:
    epochs = []
    for owner in "abab":
        epochs.append(lab.store.elect(owner, 60_000).epoch)
        lab.end_lease()
    assert epochs == [1, 2, 3, 4]


def test_only_the_holder_resigns(lab: Lab) -> None:
    """A leader that was frozen past its lease must not release its successor's."""
    lab.store.elect("a", 60_000)
    lab.end_lease()
    assert lab.store.elect("b", 60_000).epoch == 2
    assert not lab.store.resign("a", 1)
    assert not lab.store.resign("b", 1)
    assert lab.store.elect("a", 60_000).epoch == 0
    assert lab.store.resign("b", 2)
    assert not lab.store.resign("b", 2)
    assert lab.store.elect("a", 60_000).epoch == 3


def test_an_epoch_is_above_every_epoch_that_has_written(lab: Lab) -> None:
    """A counter that restarts must not hand out what the fence refuses."""
    lab.store.dispatch(41, ["q"], 1, 1)
    assert lab.store.elect("a", 60_000).epoch == 42


# -- the fence ---------------------------------------------------------------------------------


def _everything(lab: Lab, epoch: int) -> dict[str, Callable[[], Any]]:
    arrival = lab.store.read_ingress(b"", 1, 0).arrivals[0]
    due = lab.store.due(1)[0][0]
    record = stamped(arrival.entry, arrival.record)
    admission = Admission(arrival.entry, arrival.queue, arrival.tenant, 1.0, record)
    promotion = Promotion(due.member, due.queue, due.tenant, 1.0, due.record)
    store = lab.store
    return {
        "admit": lambda: store.admit(epoch, 1, [admission]),
        "promote": lambda: store.promote(epoch, 1, [promotion]),
        "dispatch": lambda: store.dispatch(epoch, ["q"], 10, 10),
        "rerank": lambda: store.rerank(epoch, 1, "q", b"t", [(record, 0.0)]),
        "regroup": lambda: store.regroup(epoch, {"q": "p", "p": "p"}),
        "bury_delayed": lambda: store.bury_delayed(epoch, [due._replace(reason="reason")]),
        "bury_ingress": lambda: store.bury_ingress(
            epoch, [Arrival(arrival.entry, "", b"", b"", {}, "reason")]
        ),
    }


ACTIONS = ("admit", "promote", "dispatch", "rerank", "regroup", "bury_ingress", "bury_delayed")


@pytest.mark.parametrize("action", ACTIONS)
def test_a_superseded_leader_changes_nothing(lab: Lab, action: str) -> None:
    """The check lives where the write happens: in each script, before its first write.

    With the include ``fence`` taken out of the scripts, all of them fail on both servers.
    """
    submit(lab.store, task("p1"), task("p2"))
    admit_all(lab.store)
    submit(lab.store, task("n"), task("d", delay=60_000))
    lab.ripen()
    lab.store.dispatch(7, ["q"], 0, 1)
    before = lab.view()
    with pytest.raises(FencedError) as refused:
        _everything(lab, 6)[action]()
    assert (refused.value.epoch, refused.value.fence) == (6, 7)
    assert differences(before, lab.view()) == {}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_newer_leader_raises_the_fence(lab: Lab, action: str) -> None:
    submit(lab.store, task("n"), task("d", delay=60_000))
    lab.ripen()
    _everything(lab, 9)[action]()
    assert lab.view().fence == 9


# -- admission and promotion -------------------------------------------------------------------


def test_admission_moves_a_task_in_one_step(lab: Lab) -> None:
    submit(lab.store, task("n", "acme", cost=2.0))
    (arrival,) = lab.store.read_ingress(b"", 10, 0).arrivals
    record = stamped(arrival.entry, arrival.record)
    item = Admission(arrival.entry, "q", b"acme", 5.0, record)
    assert lab.store.admit(1, 1, [item]) == 1
    view = lab.view()
    assert view.ingress == []
    assert view.pending == {("q", b"acme"): [(b"0.0.0.n", 5.0, 0, 0)]}
    assert view.heads == {"q": [(b"acme", 2.0)]}
    assert view.starts == {"q": {b"acme": 0.0}}
    view.assert_conserved()
    assert lab.store.admit(1, 1, [item]) == 0, "a blind repeat moves nothing"
    assert differences(view, lab.view()) == {}


def test_a_repeat_with_more_moves_only_what_is_new(lab: Lab) -> None:
    """The call timed out, the server had done it, and more has arrived since."""
    submit(lab.store, task("a"), task("b"))
    admit_all(lab.store)
    first = lab.view()
    submit(lab.store, task("c"))
    arrivals = lab.store.read_ingress(b"", 10, 0).arrivals
    assert [a.record[48:] for a in arrivals] == [b"0.0.0.c"]
    assert admit_all(lab.store) == 1
    assert len(lab.view().pending["q", b"t"]) == len(first.pending["q", b"t"]) + 1


def test_reading_ahead_of_an_admission_repeats_nothing(lab: Lab) -> None:
    submit(lab.store, *[task(f"n{i}") for i in range(5)])
    first = lab.store.read_ingress(b"", 2, 0)
    assert [a.record[48:] for a in first.arrivals] == [b"0.0.0.n0", b"0.0.0.n1"]
    again = lab.store.read_ingress(b"", 2, 0)
    assert [a.entry for a in again.arrivals] == [a.entry for a in first.arrivals]


@pytest.mark.parametrize(
    "fields",
    [{b"x": b"y"}, {b"d": b"\xff\xfe"}, {b"d": b""}, {b"d": b'{"a":1}' * 5}],
    ids=["foreign field", "two bytes", "empty", "JSON"],
)
def test_an_unreadable_entry_goes_to_the_dead_letters_raw(
    make_lab: Callable[..., Lab], fields: dict[bytes, bytes]
) -> None:
    """The good task behind it is admitted all the same (celery/celery #1113)."""
    lab = make_lab()
    lab.spoil_ingress(fields)
    submit(lab.store, task("good"))
    bad, good = lab.store.read_ingress(b"", 10, 0).arrivals
    assert bad.fields == fields
    assert bad.reason
    assert good.fields is None
    assert lab.store.bury_ingress(1, [bad]) == 1
    assert lab.store.bury_ingress(1, [bad]) == 0
    assert admit_all(lab.store) == 1
    view = lab.view()
    assert view.dead == [(b"", bad.reason)]
    assert view.counters["unreadable:ingress"] == 1
    view.assert_conserved()


def test_promotion_moves_a_due_task_in_one_step(lab: Lab) -> None:
    submit(lab.store, task("n", "acme", delay=60_000))
    lab.ripen()
    ((due,), following) = lab.store.due(10)
    assert (due.queue, due.tenant, following) == ("q", b"acme", None)
    item = Promotion(due.member, due.queue, due.tenant, 5.0, due.record)
    assert lab.store.promote(1, 1, [item]) == 1
    view = lab.view()
    assert view.delayed == []
    assert view.pending == {("q", b"acme"): [(b"0.0.0.n", 5.0, 0, 0)]}
    view.assert_conserved()
    assert lab.store.promote(1, 1, [item]) == 0
    assert differences(view, lab.view()) == {}


@pytest.mark.parametrize("member", [b"", b"\xff\xfe", b"\x00\x00\x01\x00\x00q", b"x" * 80])
def test_an_unreadable_delayed_member_goes_to_the_dead_letters(lab: Lab, member: bytes) -> None:
    """The good task beside it is promoted all the same (celery/celery #1113)."""
    submit(lab.store, task("good", due=2**50))
    lab.ripen()
    lab.spoil_delayed(member)
    bad = [each for each in lab.store.due(10)[0] if each.reason]
    assert [each.member for each in bad] == [member]
    assert lab.store.bury_delayed(1, bad) == 1
    assert lab.store.bury_delayed(1, bad) == 0
    assert promote_all(lab.store) == 1
    view = lab.view()
    assert view.dead == [(b"", bad[0].reason)]
    assert view.counters["unreadable:delayed"] == 1
    view.assert_conserved()


@pytest.mark.parametrize("policy", ["fifo", "priority"])
def test_of_those_due_in_one_ms_the_most_urgent_runs_first(
    make_lab: Callable[..., Lab], policy: str
) -> None:
    lab = make_lab(policy=policy)
    for priority in (0, 7, 255, 3):
        submit(lab.store, task(f"p{priority}", priority=priority, due=2**50))
    lab.ripen()
    assert [unpack_record(d.record).priority for d in lab.store.due(10)[0]] == [255, 7, 3, 0]
    assert promote_all(lab.store) == 4
    dispatch_all(lab.store)
    assert lab.names("q") == ["p255", "p7", "p3", "p0"]


# -- dispatch ----------------------------------------------------------------------------------


def backlog(lab: Lab, *queues: str, each: int = 4, tenant: str = "t") -> None:
    for queue in queues:
        submit(lab.store, *[task(f"{tenant}{queue}{i}", tenant, queue) for i in range(each)])
    admit_all(lab.store)


def test_capacity_bounds_what_is_in_flight(lab: Lab) -> None:
    backlog(lab, "q")
    reply = lab.store.dispatch(1, ["q"], 3, 100)
    assert (reply.count, reply.starved, reply.counts) == (3, True, {"q": 3})
    reply = lab.store.dispatch(1, ["q"], 3, 100)
    assert (reply.count, reply.starved, reply.counts) == (0, True, {"q": 3})
    lab.store.complete("w", [complete(lab.tokens("q")[0])])
    assert "credit" in lab.store.read_ingress(b"", 1, 0).wakes, "a starved leader is woken"
    reply = lab.store.dispatch(1, ["q"], 9, 100)
    assert (reply.count, reply.starved, reply.counts) == (1, False, {"q": 3})


def test_capacity_is_of_all_asked_queues_together(lab: Lab) -> None:
    backlog(lab, "a", "b")
    lab.store.regroup(1, {"a": "a", "b": "a"})
    rerank_all(lab.store)
    reply = lab.store.dispatch(1, ["a", "b"], 5, 100)
    assert reply.count == sum(reply.counts.values()) == 5


def test_a_batch_bounds_one_call(lab: Lab) -> None:
    backlog(lab, "q")
    reply = lab.store.dispatch(1, ["q"], 100, 3)
    assert (reply.count, reply.starved) == (3, False)


@pytest.mark.parametrize("capacity", [0, -5])
def test_no_credit_moves_nothing(lab: Lab, capacity: int) -> None:
    backlog(lab, "q")
    assert lab.store.dispatch(1, ["q"], capacity, 100).count == 0
    assert lab.names("q") == []


def test_a_queue_without_tasks_is_no_error(lab: Lab) -> None:
    reply = lab.store.dispatch(1, ["nobody"], 10, 10)
    assert (reply.count, reply.starved, reply.counts) == (0, False, {"nobody": 0})


def test_the_total_cap_bounds_all_queues(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(max_running=3)
    backlog(lab, "a", "b")
    assert lab.store.dispatch(1, ["a"], 100, 2).count == 2
    reply = lab.store.dispatch(1, ["b"], 100, 100)
    assert (reply.count, reply.starved) == (1, True)


def test_a_paused_queue_waits(lab: Lab) -> None:
    backlog(lab, "q")
    assert lab.store.pause_queue("q")
    assert not lab.store.pause_queue("q")
    assert lab.store.dispatch(1, ["q"], 100, 100).count == 0
    assert lab.store.resume_queue("q")
    assert not lab.store.resume_queue("q")
    assert lab.store.dispatch(1, ["q"], 100, 100).count == 4


def test_a_paused_tenant_waits_and_hides_nobody(lab: Lab) -> None:
    backlog(lab, "q", tenant="held")
    backlog(lab, "q", tenant="free")
    assert lab.store.pause_tenant(b"held")
    backlog(lab, "q", tenant="held2")
    submit(lab.store, task("late", "held"))
    admit_all(lab.store)
    assert lab.store.dispatch(1, ["q"], 100, 100).count == 8
    assert lab.view().gated == {"q": {b"held"}}
    assert lab.view().starts == {}
    assert lab.store.resume_tenant(b"held")
    assert not lab.store.resume_tenant(b"held")
    assert lab.store.dispatch(1, ["q"], 100, 100).count == 5


def test_a_cap_holds_and_settling_lets_go(lab: Lab) -> None:
    backlog(lab, "q", tenant="capped")
    lab.store.set_cap(b"capped", 1)
    for name in ("cappedq0", "cappedq1", "cappedq2", "cappedq3"):
        reply = lab.store.dispatch(1, ["q"], 100, 100)
        assert (reply.count, reply.starved) == (1, False)
        assert lab.names("q") == [name]
        assert lab.store.dispatch(1, ["q"], 100, 100).count == 0
        lab.store.complete("w", [complete(lab.tokens("q")[0])])
        lab.view().assert_conserved()
    assert lab.view().gated == {}


def test_a_higher_cap_lets_waiting_tasks_go_at_once(lab: Lab) -> None:
    backlog(lab, "q")
    lab.store.set_cap(b"t", 1)
    dispatch_all(lab.store)
    assert lab.store.set_cap(b"t", 3)
    assert dispatch_all(lab.store) == 2
    lab.store.set_cap(b"t", 1)
    lab.store.complete("w", [complete(lab.tokens("q")[0])])
    assert dispatch_all(lab.store) == 0, "two still run, one is allowed"
    assert lab.store.set_cap(b"t", None)
    assert dispatch_all(lab.store) == 1


def test_an_unscheduled_task_goes_straight_to_exec(make_lab: Callable[..., Lab]) -> None:
    """``none`` knows no credit; everything else is the same."""
    lab = make_lab(policy="none")
    submit(lab.store, *[task(f"n{i}", f"t{i % 3}") for i in range(9)])
    assert admit_all(lab.store) == 9
    assert lab.names("q") == [f"n{i}" for i in range(9)], "in order of arrival"
    lab.view().assert_conserved()
    assert all(lab.store.complete("w", [complete(token) for token in lab.tokens("q")]))
    lab.view().assert_conserved()


def test_groups_are_recorded_and_unchanged_ones_are_free(lab: Lab) -> None:
    backlog(lab, "a", "b")
    assert lab.store.regroup(1, {"a": "a", "b": "a"}) == 1
    rerank_all(lab.store)
    assert lab.store.regroup(1, {"a": "a", "b": "a"}) == 0
    before = lab.view()
    assert before.heads == {"a": [(b"t", 1.0)], "b": [(b"t", 1.0)]}
    assert before.starts == {"a": {b"t": 0.0}}
    assert lab.store.regroup(1, {"a": "a", "b": "b"}) == 1
    rerank_all(lab.store)
    assert lab.view().starts == {"a": {b"t": 0.0}, "b": {b"t": 0.0}}


def test_workers_and_their_leases_are_listed(lab: Lab) -> None:
    assert lab.store.renew(announce("w1", "a", "b", slots=3), 30_000).status == "joined"
    assert lab.store.renew(announce("w1", "a", "b", slots=3), 30_000).status == "renewed"
    lab.store.renew(announce("w2", "c"), 30_000)
    found, now = lab.store.workers()
    assert [(w.worker, w.queues, w.slots) for w in found] == [
        ("w1", ("a", "b"), 3),
        ("w2", ("c",), 4),
    ]
    assert all(25_000 < w.expires - now <= 30_000 for w in found)
    assert "workers" in lab.store.read_ingress(b"", 1, 0).wakes
    lab.store.withdraw("w1")
    assert [w.worker for w in lab.store.workers()[0]] == ["w2"]


def test_queues_that_ever_took_a_task_are_known(lab: Lab) -> None:
    assert lab.store.queues() == []
    lab.store.submit(task("n", "t", "q:ü"), NO_LIMITS)
    assert lab.store.queues() == ["q:ü"]
