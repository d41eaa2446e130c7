"""Submit: what is written, what is refused, and that a repeat changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.store.contract.lab import Lab
from tests.store.contract.steps import admit_all, complete, submit, task
from tests.store.contract.view import View, differences, suppressed
from tq_celery.errors import DuplicateTaskError, PayloadTooLargeError, QueueFullError
from tq_celery.states import Outcome
from tq_celery.store.contract import Limits, Token
from tq_celery.store.record import NO_DEADLINE, TaskKey, unpack_record


def test_a_task_waits_in_ingress(lab: Lab) -> None:
    (receipt,) = submit(lab.store, task("n", "acme", "q"))
    assert receipt.status == "accepted"
    assert (
        differences(
            lab.view(),
            View(
                counters={"accepted:q": 1, "submitted:q": 1},
                live={b"acme": 1},
                payload={b"0.0.0.n"},
                ingress=[("q", b"acme", b"0.0.0.n")],
            ),
        )
        == {}
    )


def test_its_record_says_everything_the_policies_need(lab: Lab) -> None:
    made = task("n", b"\x00\xff:{}", "q:ü", cost=0.1, priority=255, deadline_in=500)
    (receipt,) = submit(lab.store, made)
    (found,) = lab.store.read_ingress(b"", 10, 0).arrivals
    record = unpack_record(found.record)
    assert (found.queue, found.tenant, found.fields) == ("q:ü", b"\x00\xff:{}", None)
    assert (record.cost, record.priority, record.key) == (0.1, 255, b"0.0.0.n")
    assert record.deadline == receipt.at + 500
    assert record.submitted == receipt.at
    assert (record.attempts, record.paid, record.admitted) == (0, 0, 0)


def test_no_deadline_is_the_latest_one(lab: Lab) -> None:
    submit(lab.store, task("n"), task("m", deadline=77))
    records = [unpack_record(a.record) for a in lab.store.read_ingress(b"", 10, 0).arrivals]
    assert [record.deadline for record in records] == [NO_DEADLINE, 77]


@pytest.mark.parametrize("when", [{"delay": 60_000}, {"due": 2**50}])
def test_a_task_that_is_not_due_is_delayed(lab: Lab, when: dict[str, Any]) -> None:
    submit(lab.store, task("n", "acme", **when))
    view = lab.view()
    assert view.delayed == [("q", b"acme", b"0.0.0.n", 0, 0)]
    assert view.ingress == []
    assert view.counters == {"accepted:q": 1, "delayed:q": 1}
    assert lab.store.due(10)[0] == []
    assert (lab.store.due(10)[1] or 0) > 50_000


@pytest.mark.parametrize("when", [{"delay": 0}, {"due": 1}])
def test_a_task_that_is_due_already_is_not_delayed(lab: Lab, when: dict[str, Any]) -> None:
    submit(lab.store, task("n", **when))
    assert lab.view().counters == {"accepted:q": 1, "submitted:q": 1}


def test_a_repeat_changes_nothing(lab: Lab) -> None:
    """A publisher whose call timed out may send the same task again (redis/redis-py #3554)."""
    made = [task("n"), task("later", delay=60_000)]
    submit(lab.store, *made)
    before = lab.view()
    assert [receipt.status for receipt in submit(lab.store, *made)] == ["repeat", "repeat"]
    assert suppressed(before, lab.view()) == 2


def test_another_message_under_the_same_key_is_refused(lab: Lab) -> None:
    submit(lab.store, task("n"))
    before = lab.view()
    with pytest.raises(DuplicateTaskError, match="n"):
        lab.store.submit(task("n", digest=b"another message."), Limits())
    assert suppressed(before, lab.view()) == 1


@pytest.mark.parametrize("end", ["completed", "buried"])
def test_a_settled_task_is_remembered(lab: Lab, end: str) -> None:
    """Sending a task again after it has ended does not run it again."""
    submit(lab.store, task("n"))
    admit_all(lab.store)
    lab.store.dispatch(1, ["q"], 1, 1)
    (token,) = lab.tokens("q")
    if end == "completed":
        settled = complete(token)._replace(digest=task("n").digest)
        lab.store.complete("w", [settled])
    else:
        lab.store.bury("w", token, "reason")
    before = lab.view()
    assert submit(lab.store, task("n"))[0].status == "repeat"
    with pytest.raises(DuplicateTaskError):
        lab.store.submit(task("n", digest=b"another message."), Limits())
    assert suppressed(before, lab.view()) == 2


@pytest.mark.parametrize(
    "change", [{"nesting": 1}, {"retries": 1}, {"generation": 1}], ids=lambda c: next(iter(c))
)
def test_the_id_alone_identifies_nothing(lab: Lab, change: dict[str, Any]) -> None:
    """Celery re-uses an id in retry and replace: each is a task of its own."""
    key = TaskKey("n")
    submit(lab.store, task("n", key=key), task("n", key=key._replace(**change)))
    assert lab.view().counters["accepted:q"] == 2


# -- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "scope", "other"),
    [
        (Limits(namespace=2), "namespace", None),
        (Limits(queue=2), "queue", task("fine", "t", "other")),
        (Limits(tenant=2), "tenant", task("fine", "other", "q")),
    ],
)
def test_back_pressure_counts_what_waits_in_every_state(
    lab: Lab, limits: Limits, scope: str, other: Any
) -> None:
    submit(lab.store, task("a"), limits=limits)
    admit_all(lab.store)
    submit(lab.store, task("b", delay=60_000), limits=limits)
    before = lab.view()
    with pytest.raises(QueueFullError) as refused:
        lab.store.submit(task("c"), limits)
    assert (refused.value.scope, refused.value.limit) == (scope, 2)
    assert lab.view() == before, "a refused task leaves nothing behind"
    assert lab.store.submit(task("a"), limits).status == "repeat", "a repeat is no new task"
    if other is not None:
        assert lab.store.submit(other, limits).status == "accepted"
    lab.store.dispatch(1, ["q"], 1, 1)
    assert lab.store.submit(task("c"), limits).status == "accepted", "a dispatched one is out"


def test_a_long_payload_is_refused_before_anything_is_written(lab: Lab) -> None:
    with pytest.raises(PayloadTooLargeError) as refused:
        lab.store.submit(task("n"), Limits(payload=5))
    assert (refused.value.size, refused.value.limit) == (len(task("n").payload), 5)
    assert lab.view() == View()


def test_in_bulk_each_stands_for_itself(lab: Lab) -> None:
    """A refusal stands in its task's place and harms no other."""
    submit(lab.store, task("a"))
    bulk = [
        task("a"),
        task("b"),
        task("a", digest=b"another message."),
        task("long" * 50),
        task("c"),
        task("d"),
    ]
    replies = lab.store.submit_many(bulk, Limits(namespace=3, payload=100))
    kinds = [getattr(reply, "status", type(reply)) for reply in replies]
    assert kinds == [
        "repeat",
        "accepted",
        DuplicateTaskError,
        PayloadTooLargeError,
        "accepted",
        QueueFullError,
    ]
    assert lab.view().counters == {"accepted:q": 3, "submitted:q": 3}


def test_a_bulk_may_be_longer_than_a_batch(lab: Lab) -> None:
    replies = lab.store.submit_many([task(f"n{i}") for i in range(1_201)], Limits())
    assert [reply.status for reply in replies] == ["accepted"] * 1_201
    assert lab.view().counters["submitted:q"] == 1_201


# -- retries -----------------------------------------------------------------------------------


def running(lab: Lab) -> Token:
    """Dispatch one task and return its token."""
    submit(lab.store, task("n"))
    admit_all(lab.store)
    lab.store.dispatch(1, ["q"], 1, 1)
    (token,) = lab.tokens("q")
    return token


def child(token: Token, **options: Any) -> Any:
    """Return the retry of the running task."""
    return task("n", key=TaskKey("n", retries=1), parent=token, **options)


@pytest.mark.parametrize("outcome", [Outcome.RETRIED, Outcome.REPLACED])
def test_a_retry_marks_its_parent_in_the_same_step(lab: Lab, outcome: Outcome) -> None:
    """Recovery of the parent then settles it as retried; it does not run again."""
    token = running(lab)
    lab.store.submit(child(token, supersedes=outcome), Limits())
    assert lab.view().superseded == {"q": 1}
    lab.store.renew(_worker(), 1)
    lab.store.read("w", {"q": 1}, 0)
    lab.lapse("w")
    assert lab.store.reclaim("w", 5, True, 10) == 1
    view = lab.view()
    assert [result[3] for result in view.results] == [outcome.value]
    assert view.ingress == [("q", b"t", b"0.1.0.n")]
    assert view.nonempty("pending", "superseded") == {}
    assert view.payload == {b"0.1.0.n"}
    view.assert_conserved()


def _worker() -> Any:
    from tests.store.contract.steps import announce

    return announce("w", "q")


def test_a_retry_of_a_delivery_that_is_not_current_decides_nothing(lab: Lab) -> None:
    token = running(lab)
    before = lab.view()
    for stale in (token._replace(epoch=token.epoch + 1), token._replace(entry=b"1-1")):
        assert lab.store.submit(child(stale), Limits()).status == "stale"
    assert lab.view() == before


def test_a_second_run_repeats_the_first_run_s_retry(lab: Lab) -> None:
    """Whatever the message is the second time: the first acceptance stands, nothing raises."""
    token = running(lab)
    lab.store.submit(child(token), Limits())
    before = lab.view()
    again = child(token, digest=b"other arguments.")
    assert lab.store.submit(again, Limits()).status == "repeat"
    assert suppressed(before, lab.view()) == 1


def test_the_done_memory_forgets_by_count(make_lab: Callable[..., Lab]) -> None:
    """At most ``done_max`` keys are kept; the newest half always is."""
    lab = make_lab()
    lab.limit_done(20)
    for i in range(100):
        submit(lab.store, task(f"n{i}"))
        admit_all(lab.store)
        lab.store.dispatch(1, ["q"], 1, 1)
        lab.store.complete("w", [complete(lab.tokens("q")[0])])
        assert len(lab.view().done) <= 20
    assert {f"0.0.0.n{i}".encode() for i in range(91, 100)} <= lab.view().done
