"""What a retry sends: every option of ``self.retry`` and of ``autoretry_for``, and what is kept."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import states
from celery.exceptions import MaxRetriesExceededError

from tests.celery.recording import Lab
from tq_celery import PayloadTooLargeError, QueueFullError, StoreUnavailableError
from tq_celery.envelope import Envelope, decode
from tq_celery.store.contract import Submission
from tq_celery.task import UnsentRetry


@pytest.fixture
def lab() -> Lab:
    return Lab()


class Retrying:
    """A task that retries with the options it is told, and what that sent."""

    def __init__(self, lab: Lab, **declared: Any) -> None:
        self.lab = lab
        self.how: dict[str, Any] = {}

        @lab.tq.task(name="lab.again", bind=True, shared=False, **{"tenant": "who", **declared})
        def again(task: Any, who: str = "acme", number: int = 0) -> Any:
            task.retry(**self.how)
            return "went on"

        self.task = again
        #: What the last run of the worker's tracer gave back.
        self.ended: Any = None

    def child(self, **how: Any) -> tuple[Submission, Envelope]:
        """Run the newest submission, which retries with ``how``; return its successor."""
        self.how = how
        count = len(self.lab.taken)
        self.ended = self.lab.run(self.lab.taken[-1])
        assert len(self.lab.taken) == count + 1, self.ended
        return self.lab.last()


def test_everything_a_task_was_sent_with_is_kept(lab: Lab) -> None:
    """celery/celery #7517 and its kin: tenant, priority, headers, deadline or expiry were lost."""
    again = Retrying(lab, deadline=60, cost=3)
    expires = datetime.now(UTC) + timedelta(hours=1)
    signature = again.task.s("acme", number=4).set(
        priority=7, headers={"mine": "kept"}, expires=expires, time_limit=90, soft_time_limit=60,
        queue="reports", shadow="nice name", ignore_result=True,
    )  # fmt: skip
    signature.stamp(audit="2026")
    signature.apply_async()
    first, sent = lab.last()
    child, message = again.child(countdown=3)

    assert child.key == first.key._replace(retries=1)
    assert (child.tenant, child.priority, child.cost) == (b"acme", 7, 3.0)
    assert (child.queue, child.delay) == ("celery", 3000)  # the recorder delivers from "celery"
    assert child.deadline == sent.headers["tq"]["deadline"]
    for name in ("mine", "expires", "timelimit", "shadow", "ignore_result", "stamps",
                 "stamped_headers", "root_id", "origin"):  # fmt: skip
        assert message.headers[name] == sent.headers[name], name
    assert message.body == sent.body
    assert message.headers["retries"] == 1


def test_countdown_and_eta(lab: Lab) -> None:
    again = Retrying(lab, default_retry_delay=40, max_retries=None)
    again.task.delay()
    assert again.child(countdown=0.25)[0].delay == 250
    assert again.child()[0].delay == 40_000
    assert again.child(countdown=0)[0].delay is None
    when = datetime(2031, 5, 4, tzinfo=UTC)
    due = again.child(eta=when)[0]
    assert (due.due, due.delay) == (int(when.timestamp() * 1000), None)
    assert again.child(countdown=1)[1].headers["retries"] == 5


def test_arguments_may_change(lab: Lab) -> None:
    again = Retrying(lab)
    again.task.delay("acme", number=1)
    assert again.child(args=("globex",))[1].body.startswith(b'[["globex"], {"number": 1}')
    child, message = again.child(kwargs={"number": 9})
    assert message.body.startswith(b'[["globex"], {"number": 9}')
    assert child.tenant == b"acme", "work that is tried again stays with who it was done for"


def test_options_of_the_next_try(lab: Lab) -> None:
    again = Retrying(lab)
    again.task.apply_async(("acme",), priority=7, headers={"mine": 1}, tenant="vip", cost=5)
    child, message = again.child(priority=200, queue="slow", headers={"other": 2}, time_limit=5)
    assert (child.priority, child.queue) == (200, "slow")
    assert message.headers["timelimit"] == [5, None]
    assert message.headers["other"] == 2
    assert "mine" not in message.headers, "as in Celery, given headers replace the task's own"
    # seen to fail without the part of ``resolve`` that reads the header of the task itself
    assert (child.tenant, child.cost) == (b"vip", 5.0)
    child, _ = again.child(tenant="other", cost=0.5, deadline=9)
    assert (child.tenant, child.cost, child.deadline_in) == (b"other", 0.5, 9000)
    assert again.child()[0].tenant == b"other"


def test_no_more_tries_than_allowed(lab: Lab) -> None:
    again = Retrying(lab, max_retries=1)
    again.task.delay()
    again.child()
    ended = lab.run(lab.taken[-1])
    assert ended.info.state == states.FAILURE
    assert isinstance(ended.info.retval, MaxRetriesExceededError)
    again.how = {"exc": KeyError("mine")}
    assert repr(lab.run(lab.taken[-1]).info.retval) == "KeyError('mine')"
    assert len(lab.taken) == 2
    again.child(max_retries=5)
    none = Retrying(Lab(), max_retries=0)
    none.task.delay()
    assert none.lab.run(none.lab.taken[-1]).info.state == states.FAILURE
    endless = Retrying(Lab(), max_retries=None)
    endless.task.apply_async(retries=1_000)
    assert endless.child()[0].key.retries == 1_001


def test_a_retry_without_an_exception_goes_on(lab: Lab) -> None:
    again = Retrying(lab)
    again.task.delay()
    again.child(throw=False)
    assert again.ended.retval == "went on"
    again.child(throw=True, exc=KeyError("x"))
    assert again.ended.info.state == states.RETRY


def test_autoretry(lab: Lab) -> None:
    """``autoretry_for``, ``dont_autoretry_for``, ``retry_kwargs`` and Celery's own back-off."""
    raised: list[Exception] = [KeyError("x")]

    @lab.tq.task(
        name="lab.auto", tenant="who",
        autoretry_for=(LookupError,), dont_autoretry_for=(IndexError,), retry_backoff=3,
        retry_backoff_max=10, retry_jitter=False,
        retry_kwargs={"max_retries": 3, "priority": 9},
    )  # fmt: skip
    def auto(who: str) -> None:
        raise raised[0]

    auto.apply_async(("acme",), headers={"mine": 1})
    for delay in (3_000, 6_000, 10_000):
        assert lab.run(lab.taken[-1]).info.state == states.RETRY
        child, message = lab.last()
        assert (child.delay, child.tenant, child.priority) == (delay, b"acme", 9)
        assert message.headers["mine"] == 1
    assert lab.run(lab.taken[-1]).info.state == states.FAILURE
    auto.delay("acme")
    raised[0] = IndexError("x")
    assert lab.run(lab.taken[-1]).info.state == states.FAILURE
    assert len(lab.taken) == 5


def test_celerys_full_jitter(lab: Lab) -> None:
    @lab.tq.task(name="lab.auto", autoretry_for=(KeyError,), retry_backoff=True, max_retries=None)
    def auto() -> None:
        raise KeyError

    auto.apply_async(retries=5)
    random.seed(4)
    for _ in range(20):
        lab.run(lab.taken[0])
    assert {each.delay for each in lab.taken[1:]} <= {None, *range(1000, 33_000, 1000)}
    assert len({each.delay for each in lab.taken[1:]}) > 8


# --- decorrelated ---------------------------------------------------------------------------------


@pytest.mark.parametrize("explicit", [False, True], ids=["autoretry_for", "self.retry()"])
def test_the_last_sleep_travels_with_the_task(lab: Lab, explicit: bool) -> None:
    """Each sleep lies between base and three times the one before, through the message's header."""
    how: dict[str, Any] = {} if explicit else {"autoretry_for": (KeyError,)}

    @lab.tq.task(
        name="lab.spread", bind=True, max_retries=None, retry_backoff="decorrelated",
        retry_backoff_base=2, retry_backoff_max=100, default_retry_delay=7, **how,
    )  # fmt: skip
    def spread(self: Any) -> None:
        raise self.retry() if explicit else KeyError

    spread.apply_async(headers={"mine": 1})
    random.seed(12)
    last, seen = 2.0, []
    for _ in range(40):
        assert lab.run(lab.taken[-1]).info.state == states.RETRY
        child, message = lab.last()
        sleep = message.headers["tq_backoff"]
        assert 2.0 <= sleep <= min(100.0, 3 * last)
        assert child.delay is not None
        assert 0 <= child.delay - sleep * 1000 < 1
        assert message.headers["mine"] == 1
        seen.append(sleep)
        last = sleep
    assert max(seen) == 100.0
    assert len({round(each, 3) for each in seen if each < 100}) > 15
    # delivered again after its worker was lost, the same message draws from the same range
    for _ in range(30):
        lab.run(lab.taken[1])
        assert lab.last()[1].headers["tq_backoff"] <= 3 * seen[0]


def test_a_time_that_is_named_wins(lab: Lab) -> None:
    again = Retrying(lab, retry_backoff="decorrelated", max_retries=None)
    again.task.delay()
    slept = again.child()[1].headers["tq_backoff"]
    assert 1.0 <= slept <= 3.0
    child, message = again.child(countdown=5)
    assert child.delay == 5000
    assert message.headers["tq_backoff"] == slept, "it is not forgotten over that"
    assert again.child(eta=datetime(2031, 5, 4, tzinfo=UTC))[0].delay is None
    child, message = again.child(headers={"other": 1}, tenant="vip")
    assert (message.headers["other"], child.tenant) == (1, b"vip")
    assert 1.0 <= message.headers["tq_backoff"] <= 3 * slept


@pytest.mark.parametrize("nonsense", ["soon", -1, True, None, [], "1e999"])
def test_nonsense_in_the_header_starts_anew(lab: Lab, nonsense: object) -> None:
    again = Retrying(lab, retry_backoff="decorrelated")
    again.task.apply_async(headers={"tq_backoff": nonsense})
    assert 1.0 <= again.child()[1].headers["tq_backoff"] <= 3.0


def test_children_do_not_inherit_the_sleep(lab: Lab) -> None:
    @lab.tq.task(name="lab.leaf")
    def leaf() -> None: ...

    @lab.tq.task(name="lab.parent", bind=True)
    def parent(self: Any) -> None:
        leaf.delay()

    parent.apply_async(headers={"tq_backoff": 4.0}, link=leaf.si())
    lab.run(lab.taken[0])
    assert len(lab.taken) == 3
    for child in lab.taken[1:]:
        assert "tq_backoff" not in decode(child.payload).headers


def test_called_directly_and_eagerly_as_in_celery(lab: Lab) -> None:
    """Without a worker nothing is waited for: the exception is raised, or the task runs again."""
    ran = []

    @lab.tq.task(name="lab.eager", bind=True, retry_backoff="decorrelated", max_retries=2)
    def eager(self: Any) -> int:
        ran.append(self.request.retries)
        if self.request.retries < 2:
            raise self.retry(exc=KeyError("x"))
        return int(self.request.retries)

    with pytest.raises(KeyError):
        eager()
    assert eager.apply().get() == 2
    assert ran == [0, 0, 1, 2]
    assert lab.taken == []


# --- not sent -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        QueueFullError("queue", "celery", 1),
        StoreUnavailableError("submit", "away"),
        PayloadTooLargeError("x", 2, 1),
    ],
)
def test_a_retry_that_is_not_sent_says_so(error: Exception) -> None:
    """Celery raises Reject, which could also be the task's own wish."""
    lab = Lab(settings={"publish_timeout": 0.2})
    again = Retrying(lab)
    again.task.delay()
    lab.recorder.errors = [error] * 1000
    ended = lab.run(lab.taken[-1])
    assert ended.info.state == states.REJECTED
    assert isinstance(ended.info.retval, UnsentRetry)
    reason = ended.info.retval.reason
    assert error in (reason, reason.__cause__)
