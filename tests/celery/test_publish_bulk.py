"""Bulk submission: the same messages in fewer round trips, and errors that name their calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery, _state, chain, group, signals
from kombu.exceptions import OperationalError

from tests.celery.recording import Lab
from tq_celery import TQ, BulkError, OptionError, QueueFullError, StoreUnavailableError
from tq_celery.envelope import decode
from tq_celery.store.contract import Submission

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@pytest.fixture(autouse=True)
def _no_shared_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_state, "_on_app_finalizers", set(_state._on_app_finalizers))


@pytest.fixture
def lab() -> Lab:
    return Lab()


def declare(lab: Lab, **options: Any) -> Any:
    @lab.tq.task(name="lab.add", **{"tenant": "x", "cost": 2, **options})
    def add(x: Any, y: Any = 0) -> None: ...

    return add


CALLS: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    (("acme",), {}, {}),
    ((7,), {"y": 2.5}, {}),
    (('it\'s "quoted" \\ é\n',), {"y": None}, {"task_id": 'odd "id" é'}),
    ((b"bytes", [1, {"k": (2, 3)}]), {}, {"tenant": "vip", "priority": 9}),
    (("long" * 900,), {}, {"tenant": "t", "deadline": 60}),
    (("acme",), {"y": True}, {"countdown": 5}),
    ([1, 2], {}, {"tenant": b"\xff\x00", "cost": 0.25}),
    (("acme",), {}, {"queue": "other", "headers": {"mine": 1}, "expires": 60}),
]


def comparable(submission: Submission) -> tuple[Any, ...]:
    message = decode(submission.payload)
    headers = dict(message.headers)
    headers.pop("expires")
    tq = dict(headers.pop("tq"))
    tq.pop("deadline", None)
    return (
        submission.queue, submission.tenant, submission.cost, submission.priority,
        submission.deadline_in, submission.delay, submission.due, submission.digest,
        submission.key, message.body, headers, tq, message.properties, message[1:3],
    )  # fmt: skip


def test_the_fast_way_builds_what_celery_builds(lab: Lab) -> None:
    """Field by field, for calls with everything in them that could be written differently."""
    task = declare(lab)
    calls = []
    for number, (args, kwargs, options) in enumerate(CALLS):
        calls.append((task, args, kwargs, {"task_id": f"id-{number}", **options}))
    fast = lab.tq.submit_many(calls)
    quick, lab.taken[:] = list(lab.taken), []
    for _, args, kwargs, options in calls:
        task.apply_async(args, kwargs, **options)
    assert [comparable(each) for each in quick] == [comparable(each) for each in lab.taken]
    assert fast == [each.key.id for each in lab.taken]


def test_ids_are_random_uuids_of_their_own(lab: Lab) -> None:
    task = declare(lab)
    ids = lab.tq.submit_many((task, (n,)) for n in range(1_300))
    assert len(set(ids)) == 1_300
    assert all(ID.fullmatch(each) for each in ids)
    assert [json.loads(decode(s.payload).body)[0][0] for s in lab.taken] == list(range(1_300))


def test_signatures_groups_and_workflows(lab: Lab) -> None:
    task = declare(lab)
    lab.tq.submit_many([task.s("a"), task.s("b").set(priority=4), task.si("c")])
    lab.tq.submit_many(group(task.s("d"), task.s("e")))
    lab.tq.submit_many([chain(task.si("f"), task.si("g")), group(task.si("h"), task.si("i"))])
    assert [s.tenant for s in lab.taken] == [b"a", b"b", b"c", b"d", b"e", b"f", b"h", b"i"]
    assert lab.taken[1].priority == 4


def test_signals_fire_for_each_call(lab: Lab) -> None:
    task, seen = declare(lab), []

    def note(headers: Any, **_: Any) -> None:
        seen.append(headers["id"])

    signals.before_task_publish.connect(note)
    try:
        ids = lab.tq.submit_many([(task, ("a",)), (task, ("b",))])
    finally:
        signals.before_task_publish.disconnect(note)
    assert seen == ids


def test_ambient_tenant_and_routes_count() -> None:
    lab = Lab(settings={"routes": {"plain": {"priority": 3}}})
    plain = lab.app.task(name="plain")(nothing)
    with lab.tq.tenant("acme"):
        lab.tq.submit_many([(plain,), (plain, (), {}, {"tenant": "vip"})])
    assert [(s.tenant, s.priority) for s in lab.taken] == [(b"acme", 3), (b"vip", 3)]


def nothing() -> None: ...


def test_one_error_names_every_bad_call_and_the_good_ones_are_taken(lab: Lab) -> None:
    task = declare(lab)
    calls: list[Any] = [(task, ("a",))] * 700
    calls[3] = (task, ("b",), {}, {"priority": 300})
    calls[4] = (task, ())
    calls[5] = "nonsense"
    calls[600] = (task, (object(),), {}, {"tenant": "x"})
    with pytest.raises(BulkError, match="4 of 700 calls were not taken") as caught:
        lab.tq.submit_many(iter(calls))
    errors, ids = caught.value.errors, caught.value.ids
    assert {i: type(e).__name__ for i, e in errors.items()} == {
        3: "OptionError",
        4: "TypeError",
        5: "TypeError",
        600: "EncodeError",
    }
    assert isinstance(errors[3], OptionError)
    assert "priority: 300" in str(caught.value)
    assert [i for i, each in enumerate(ids) if each is None] == [3, 4, 5, 600]
    assert [each for each in ids if each] == [s.key.id for s in lab.taken]


def test_a_refusal_by_the_store_is_named_too(lab: Lab) -> None:
    task = declare(lab)
    lab.recorder.errors = [QueueFullError("queue", "celery", 1)]
    with pytest.raises(BulkError) as caught:
        lab.tq.submit_many([(task, ("a",)), (task, ("b",))])
    assert isinstance(caught.value.errors[0], QueueFullError)
    assert caught.value.ids[0] is None
    assert caught.value.ids[1] == lab.taken[0].key.id


def test_a_server_that_is_away_ends_the_call(namespace: str) -> None:
    """The batch on its way is unknown and keeps its ids; what follows was not attempted."""
    app = Celery(namespace, broker="memory://", set_as_current=False)
    tq = TQ(app, "redis://127.0.0.1:1/0", publish_timeout=0.3)
    task = tq.task(name="t.nothing")(nothing)
    asked = 0

    def calls() -> Iterator[Any]:
        nonlocal asked
        for asked in range(5_000):  # noqa: B007
            yield (task,)

    with pytest.raises(BulkError) as caught:
        tq.submit_many(calls())
    assert asked <= 1_500
    assert all(isinstance(e, OperationalError) for e in caught.value.errors.values())
    assert all(caught.value.ids[:500])
    assert not any(caught.value.ids[500:])
    assert StoreUnavailableError("x", "y")


def test_on_a_real_server(any_server: Any, namespace: str) -> None:
    app = Celery(namespace, broker="memory://", set_as_current=False)
    tq = TQ(app, any_server.url)
    task = tq.task(name="t.nothing")(nothing)
    ids = tq.submit_many((task, (), {}, {"countdown": n % 2 * 60}) for n in range(1_200))
    with any_server.client() as client:
        assert client.xlen(f"tq:{{{namespace}}}:ingress") == 600
        assert client.zcard(f"tq:{{{namespace}}}:delayed") == 600
        assert client.hlen(f"tq:{{{namespace}}}:payload") == len(set(ids)) == 1_200
        client.script_flush()
    again: list[Any] = [(task, (), {}, {"task_id": each}) for each in ids[:600]]
    assert tq.submit_many(again) == ids[:600]
    with any_server.client() as client:
        assert client.hlen(f"tq:{{{namespace}}}:payload") == 1_200
    tq.producers.close()
