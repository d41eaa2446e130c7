"""Tenant, priority and deadline reach every task of a workflow (celery/celery #7517)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import chain, chord, group

from tests.celery.recording import Lab
from tq_celery import DuplicateTaskError, const
from tq_celery.envelope import decode

#: Celery's Redis backend uses a command that redis-py calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated:DeprecationWarning")


class Flow(Lab):
    """A lab with tasks a to e, which return their name, and ``plain``, which is not scheduled."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.ran: list[str] = []
        self.plain_headers: list[Any] = []
        self.a, self.b, self.c, self.d, self.e = (self._declare(name) for name in "abcde")

        @self.app.task(name="plain")
        def plain(*_: Any) -> str:
            self.ran.append("plain")
            return "plain"

        self.plain = plain

    def _declare(self, name: str) -> Any:
        @self.tq.task(name=name)
        def task(*_: Any) -> str:
            self.ran.append(name)
            return name

        return task

    def run_all(self) -> None:
        """Run everything that is sent until nothing new comes."""
        done = 0
        while True:
            waiting = self.taken[done:]
            done = len(self.taken)
            stock = self.stock()
            self.plain_headers += [each.get("tq") for each in stock]
            if not waiting and not stock:
                return
            for each in waiting:
                self.run(each)
            for message in stock:
                self.run(message)


@pytest.fixture
def flow(any_server, namespace: str) -> Iterator[Flow]:
    """Chords need a real result backend; Redis joins them natively."""
    lab = Flow(backend=any_server.url, settings={"namespace": namespace})
    yield lab
    # Results that go later would unsubscribe, which needs the server.
    lab.app.backend.remove_pending_result = lambda result: result
    lab.app.backend.result_consumer.stop()
    lab.app.backend.client.close()
    lab.app.close()


WORKFLOW_OPTIONS = {"tenant": "acme", "priority": 7, "deadline": 60, "cost": 5}


def expect(header: dict[str, Any], **changes: Any) -> None:
    """Check a header against the workflow's."""
    deadline = header.pop("deadline")
    assert abs(deadline - time.time() * 1000 - 60_000) < 10_000
    assert header == {"tenant": "acme", "priority": 7, "cost": 5.0} | changes


def test_chain_with_a_chord_in_it(flow: Flow) -> None:
    """celery/celery #7517: b, c, d and e used to run at the default priority, for nobody."""
    work = chain(flow.a.si(), chord([flow.b.si(), flow.c.si()], flow.d.si()), flow.e.si())
    work.apply_async(**WORKFLOW_OPTIONS)
    flow.run_all()
    assert flow.ran == ["a", "b", "c", "d", "e"]
    headers = flow.headers()
    assert len({header["deadline"] for header in headers.values()}) == 1
    for name in "abcde":
        expect(headers[name])
    assert [s.priority for s in flow.taken] == [7] * 5
    assert [s.cost for s in flow.taken] == [5.0] * 5


def test_a_header_given_at_the_call_is_the_same(flow: Flow) -> None:
    chain(flow.a.si(), flow.b.si()).apply_async(headers={"tq": {"tenant": "acme"}})
    flow.run_all()
    assert [s.tenant for s in flow.taken] == [b"acme"] * 2


def test_explicit_values_win(flow: Flow) -> None:
    flow.tq.task(name="own", tenant=const("own"), cost=3)(lambda_like)
    own = flow.app.tasks["own"]
    chain(flow.a.si(), flow.b.si().set(tenant="vip", priority=1), own.si()).apply_async(
        **WORKFLOW_OPTIONS
    )
    flow.run_all()
    headers = flow.headers()
    expect(headers["a"])
    expect(headers["b"], tenant="vip", priority=1)
    expect(headers["own"], tenant="own", cost=3.0)


def lambda_like() -> None: ...


def test_cost_of_one_declaration_is_not_passed_on(flow: Flow) -> None:
    flow.tq.task(name="dear", cost=500, tenant=const("acme"))(lambda_like)
    chain(flow.app.tasks["dear"].si(), flow.a.si()).delay()
    flow.run_all()
    assert [(s.tenant, s.cost) for s in flow.taken] == [(b"acme", 500.0), (b"acme", 1.0)]


@pytest.mark.parametrize("first", ["a", "plain"])
def test_through_tasks_that_are_not_scheduled(flow: Flow, first: str) -> None:
    start = getattr(flow, first)
    chain(start.si(), flow.plain.si(), flow.b.si()).apply_async(**WORKFLOW_OPTIONS)
    flow.run_all()
    assert flow.ran == [first, "plain", "b"]
    expect(flow.headers()["b"])
    for header in flow.plain_headers:
        expect(header)


def test_group_and_its_callback(flow: Flow) -> None:
    (group(flow.a.si(), flow.plain.si()) | flow.b.si()).apply_async(**WORKFLOW_OPTIONS)
    flow.run_all()
    assert sorted(flow.ran) == ["a", "b", "plain"]
    expect(flow.headers()["a"])
    expect(flow.headers()["b"])


def test_callbacks_and_errbacks(flow: Flow) -> None:
    @flow.tq.task(name="fails")
    def fails() -> None:
        raise KeyError("x")

    @flow.tq.task(name="on_error")
    def on_error(failed: str) -> None:
        flow.ran.append("on_error")

    fails.apply_async(link_error=on_error.s(), link=flow.b.si(), **WORKFLOW_OPTIONS)
    flow.run_all()
    flow.a.apply_async(link=[flow.d.si() | flow.e.si()], **WORKFLOW_OPTIONS)
    flow.run_all()
    headers = flow.headers()
    assert "b" not in headers
    for name in ("fails", "on_error", "a", "d", "e"):
        expect(headers[name])


def test_ambient_tenant_reaches_the_whole_workflow(flow: Flow) -> None:
    with flow.tq.tenant("acme"):
        chain(flow.plain.si(), flow.a.si(), flow.b.si()).delay()
    flow.run_all()
    assert [s.tenant for s in flow.taken] == [b"acme"] * 2


def test_chord_unlock_carries_the_workflow(tmp_path: Path) -> None:
    """Backends that do not join chords themselves send the body from ``celery.chord_unlock``."""
    flow = Flow(backend=tmp_path.as_uri())
    with flow.tq.tenant("acme"):
        chord([flow.a.si(), flow.b.si()], flow.c.si()).delay()
    (unlock,) = [each for each in flow.stock() if each["task"] == "celery.chord_unlock"]
    assert unlock["tq"]["tenant"] == "acme"
    assert unlock["body"][0][1]["options"]["headers"]["tq"]["tenant"] == "acme"


def test_sends_from_inside_a_task(flow: Flow) -> None:
    @flow.tq.task(name="sends")
    def sends() -> None:
        flow.a.delay()
        flow.b.apply_async(tenant="vip")
        flow.plain.delay()
        with flow.tq.tenant("inner"):
            flow.c.delay()

    sends.apply_async(**WORKFLOW_OPTIONS)
    flow.run_all()
    headers = flow.headers()
    expect(headers["a"], cost=1.0)
    expect(headers["b"], tenant="vip", cost=1.0)
    expect(headers["c"], tenant="inner", cost=1.0)
    (plain,) = flow.plain_headers
    assert plain["tenant"] == "acme"
    assert "cost" not in plain


def test_caller_s_signatures_are_not_changed(flow: Flow) -> None:
    callback, work = flow.b.si(), chain(flow.a.si(), flow.c.si())
    before = repr((dict(callback), dict(work)))
    flow.a.apply_async(link=callback, tenant="acme")
    work.apply_async(tenant="acme")
    assert "tq" not in repr(dict(callback))
    assert "tq" not in repr(dict(work))
    assert before.count("tq") == 0
    flow.a.apply_async(link=callback, tenant="other")
    flow.run_all()
    assert [s.tenant for s in flow.taken if decode(s.payload).headers["task"] == "b"] == [
        b"acme",
        b"other",
    ]


def test_garbage_in_an_inherited_header_is_ignored(flow: Flow) -> None:
    bad = {"tenant": ["x"], "priority": 999, "cost": "dear", "deadline": "soon"}
    flow.a.apply_async(headers={"tq": bad})
    flow.b.apply_async(headers={"tq": "garbage"})
    assert [(s.tenant, s.priority, s.cost, s.deadline) for s in flow.taken] == [
        (b"default", 0, 1.0, None)
    ] * 2


# --- retries and replacements ---------------------------------------------------------------------


def test_retry_supersedes_its_parent_and_keeps_everything() -> None:
    lab = Lab()

    @lab.tq.task(name="again", bind=True, tenant="who", max_retries=2, cost=9)
    def again(self: Any, who: str) -> None:
        raise self.retry(countdown=1.5)

    again.apply_async(("x",), headers={"mine": 1}, **WORKFLOW_OPTIONS)
    first = lab.taken[0]
    lab.run(first)
    child = lab.taken[1]
    assert child.key == first.key._replace(retries=1)
    assert child.parent is not None
    assert (child.parent.queue, child.parent.epoch) == ("celery", 3)
    assert child.supersedes == "retried"
    assert (child.tenant, child.priority, child.cost) == (b"acme", 7, 5.0)
    assert child.delay == 1500
    message = decode(child.payload)
    assert message.headers["mine"] == 1
    assert not {"tq_token", "tq_key"} & set(message.headers)
    lab.run(child)
    assert lab.taken[2].key.retries == 2
    assert lab.taken[2].tenant == b"acme"
    assert lab.taken[2].deadline == child.deadline


def test_autoretry_and_an_explicit_change() -> None:
    lab = Lab()

    @lab.tq.task(name="auto", autoretry_for=(KeyError,), retry_backoff=True, retry_jitter=False)
    def auto() -> None:
        raise KeyError("x")

    @lab.tq.task(name="change", bind=True)
    def change(self: Any) -> None:
        raise self.retry(priority=1, tenant="other", countdown=0)

    for task in (auto, change):
        task.apply_async(**WORKFLOW_OPTIONS)
        lab.run(lab.taken[-1])
    _, retried, _, changed = lab.taken
    assert (retried.key.retries, retried.tenant, retried.priority) == (1, b"acme", 7)
    assert retried.delay == 1000
    assert (changed.tenant, changed.priority, changed.delay) == (b"other", 1, None)


def test_a_retry_belongs_to_its_requeue_generation() -> None:
    lab = Lab()

    @lab.tq.task(name="again", bind=True)
    def again(self: Any) -> None:
        raise self.retry()

    again.delay()
    first = lab.taken[0]
    lab.run(first._replace(key=first.key._replace(generation=4)))
    assert lab.taken[1].key.generation == 4


def test_a_repeated_retry_with_another_message_does_not_raise() -> None:
    """An exception inside ``Task.retry`` would make Celery reject the task."""
    lab = Lab()

    @lab.tq.task(name="again", bind=True)
    def again(self: Any, at: float = 0) -> None:
        lab.recorder.errors.append(DuplicateTaskError("x"))
        raise self.retry(args=(time.time(),))

    again.delay()
    assert lab.run(lab.taken[0]).info.state == "RETRY"
    lab.recorder.errors.append(DuplicateTaskError("x"))
    with pytest.raises(DuplicateTaskError):
        again.delay()


def _replacing(lab: Lab, sig: Any) -> Any:
    @lab.tq.task(name="old", bind=True)
    def old(self: Any) -> Any:
        return self.replace(sig())

    return old


@pytest.mark.parametrize("retries", [0, 2])
def test_replace_by_a_task_supersedes(retries: int) -> None:
    flow = Flow()
    _replacing(flow, flow.a.si).apply_async(tenant="acme", retries=retries)
    flow.run(flow.taken[0])
    old, new = flow.taken
    assert new.key == old.key._replace(nesting=1, retries=0)
    assert (new.supersedes, new.tenant) == ("replaced", b"acme")
    assert new.parent is not None
    flow.run(new)
    assert flow.ran == ["a"]


@pytest.mark.parametrize("retries", [0, 2])
def test_replace_by_a_chain_supersedes_with_its_first_task(retries: int) -> None:
    flow = Flow()
    _replacing(flow, lambda: flow.a.si() | flow.b.si()).apply_async(tenant="acme", retries=retries)
    flow.run(flow.taken[0])
    old, first = flow.taken
    assert first.parent is not None
    assert first.supersedes == "replaced"
    assert first.key.id != old.key.id
    flow.run(first)
    last = flow.taken[2]
    assert (last.key.id, last.parent, last.tenant) == (old.key.id, None, b"acme")
    flow.run(last)
    assert flow.ran == ["a", "b"]


@pytest.mark.parametrize("kind", ["group", "chord"])
@pytest.mark.parametrize("retries", [0, 2])
def test_replace_by_many_supersedes_nothing(flow: Flow, kind: str, retries: int) -> None:
    """No single send of a group stands for the replacement: the parent settles at its end."""
    many = group(flow.a.si(), flow.b.si())
    _replacing(
        flow, lambda: many if kind == "group" else chord([flow.a.si(), flow.b.si()], flow.c.si())
    ).apply_async(tenant="acme", retries=retries)
    flow.run_all()
    assert all(each.parent is None for each in flow.taken)
    assert all(each.tenant == b"acme" for each in flow.taken)
    assert sorted(flow.ran) == (["a", "b"] if kind == "group" else ["a", "b", "c"])


def test_replacing_by_a_task_that_is_not_scheduled_goes_to_the_broker() -> None:
    flow = Flow()
    _replacing(flow, flow.plain.si).apply_async(tenant="acme")
    flow.run(flow.taken[0])
    (message,) = flow.stock()
    assert (message["task"], message["id"]) == ("plain", flow.taken[0].key.id)
    assert message["tq"]["tenant"] == "acme"
    assert "tq_token" not in message
    assert len(flow.taken) == 1
