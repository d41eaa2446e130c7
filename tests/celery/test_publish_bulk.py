"""Bulk submission: the same messages in fewer round trips, and errors that name their calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery, chain, group, signals
from kombu.exceptions import OperationalError

from tests.celery.recording import Lab
from tq_celery import TQ, BulkError, OptionError, QueueFullError
from tq_celery.envelope import decode
from tq_celery.store.contract import Submission

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


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


def many(task: Any, asked: list[int], count: int = 5_000) -> Iterator[Any]:
    for number in range(count):
        asked.append(number)
        yield (task,)


def test_a_server_that_is_not_there_ends_the_call(namespace: str) -> None:
    """Nothing was sent, and the error says so; calls are not asked for without end."""
    app = Celery(namespace, broker="memory://", set_as_current=False)
    tq = TQ(app, "redis://127.0.0.1:1/0", publish_timeout=0.3)
    asked: list[int] = []
    with pytest.raises(BulkError) as caught:
        tq.submit_many(many(tq.task(name="t.nothing")(nothing), asked))
    assert len(asked) == len(caught.value.ids) == 1_000
    assert all(isinstance(e, OperationalError) for e in caught.value.errors.values())
    assert len(caught.value.errors) == 1_000
    assert not any(caught.value.ids)


@pytest.mark.parametrize("way", ["pause", "kill"])
def test_a_server_that_goes_away_in_the_middle(make_server: Any, namespace: str, way: str) -> None:
    """What was taken, what is unknown and what was not sent are told apart, to the task."""
    server = make_server(appendonly=True)
    app = Celery(namespace, broker="memory://", set_as_current=False)
    tq = TQ(app, server.url, publish_timeout=0.5)
    task = tq.task(name="t.nothing")(nothing)

    def calls() -> Iterator[Any]:
        for number in range(5_000):
            if number == 1_400:  # the second batch has been sent, and the third is being built
                with server.client() as client:
                    while client.hlen(f"tq:{{{namespace}}}:payload") < 1_000:
                        pass
                getattr(server, way)()
            yield (task, (), {}, {"task_id": f"id-{number}"})

    try:
        with pytest.raises(BulkError) as caught:
            tq.submit_many(calls())
    finally:
        if way == "pause":
            server.resume()
        else:
            server.start()
    errors, ids = caught.value.errors, caught.value.ids
    sure = [i for i in range(len(ids)) if i not in errors]
    unknown = [i for i in errors if ids[i] is not None]
    unsent = [i for i in errors if ids[i] is None]
    assert all(isinstance(each, OperationalError) for each in errors.values())
    assert sure == list(range(len(sure)))
    assert sure[-1] + 1 in (500, 1_000, 1_500)
    assert unknown in ([], list(range(sure[-1] + 1, sure[-1] + 501)))
    assert unsent
    with server.client() as client:
        there = {key[6:].decode() for key in client.hkeys(f"tq:{{{namespace}}}:payload")}
    if way == "pause":
        assert {f"id-{i}" for i in sure} <= there
    assert not there & {f"id-{i}" for i in unsent}
    again = tq.submit_many((task, (), {}, {"task_id": f"id-{i}"}) for i in unknown + unsent)
    assert again == [f"id-{i}" for i in unknown + unsent]
    tq.producers.close()


def test_a_generator_that_fails_ends_the_call(lab: Lab) -> None:
    """What it gave before is submitted, and its error stands at the index it did not reach."""
    task = declare(lab)

    def calls() -> Iterator[Any]:
        for number in range(700):
            yield (task, (number,))
        raise LookupError("no more rows")

    with pytest.raises(BulkError, match="call 700: no more rows") as caught:
        lab.tq.submit_many(calls())
    assert list(caught.value.errors) == [700]
    assert caught.value.ids == [*(each.key.id for each in lab.taken), None]
    assert len(lab.taken) == 700


def test_what_is_built_is_bounded_in_bytes_too(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five megabytes of arguments are not one script call."""
    task, batches = declare(lab), []
    start_many = lab.tq.producers.start_many

    def start(batch: Any, limits: Any, **options: Any) -> Any:
        batches.append(len(batch))
        return start_many(batch, limits, **options)

    monkeypatch.setattr(lab.tq.producers, "start_many", start)
    lab.tq.submit_many((task, ("t", "x" * 100_000)) for _ in range(100))
    assert sum(batches) == 100
    assert max(batches) < 50


def test_groups_keep_their_own_options_and_names_need_no_task(lab: Lab) -> None:
    task = declare(lab)
    lab.tq.submit_many(group(task.s("a"), task.s("b", y=1).set(cost=3)).set(priority=4))
    assert [(s.priority, s.cost) for s in lab.taken] == [(4, 2.0), (4, 3.0)]
    named = Lab(settings={"routes": {"far.*": {"tenant": "account"}}})
    far = named.app.signature("far.away", kwargs={"account": "acme"})
    (sent,) = named.tq.submit_many([far])
    assert (named.taken[0].tenant, named.taken[0].key.id) == (b"acme", sent)
    with pytest.raises(TypeError, match="many calls"):
        lab.tq.submit_many(task.s("a"))


def test_a_tenant_that_changes_while_calls_are_given(lab: Lab) -> None:
    """A generator may open the block of each tenant itself; nothing of it is kept."""
    task = lab.tq.task(name="lab.plain")(nothing)

    def calls() -> Iterator[Any]:
        yield (task,)
        for tenant in ("a", "b"):
            with lab.tq.tenant(tenant):
                yield (task,)
        yield (task,)

    lab.tq.submit_many(calls())
    assert [s.tenant for s in lab.taken] == [b"default", b"a", b"b", b"default"]


def test_a_router_that_looks_at_arguments_is_asked_each_time() -> None:
    lab = Lab()

    def route(name: str, args: Any, kwargs: Any, options: Any, **_: Any) -> Any:
        return {"queue": f"queue-{args[0]}"} if args else None

    lab.app.conf.task_routes = (route,)
    task = declare(lab)
    lab.tq.submit_many([(task, (1,)), (task, (2,))])
    assert [s.queue for s in lab.taken] == ["queue-1", "queue-2"]


def test_the_priority_of_a_celery_route_counts() -> None:
    lab = Lab(task_routes={"lab.add": {"queue": "other", "priority": 7}})
    task = declare(lab)
    lab.tq.submit_many([(task, ("a",)), (task, ("b",), {}, {"priority": 2})])
    assert [(s.queue, s.priority) for s in lab.taken] == [("other", 7), ("other", 2)]


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
