"""The server away or refusing: a quick typed error, or the broker where that is certain."""

from __future__ import annotations

import logging
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from bench.harness.proxy import FaultProxy
from tests.celery import recording
from tests.waiting import BUSY, wait_until
from tq_celery import TQ, BulkError, StoreUnavailableError
from tq_celery.store.keys import Keys

TIMEOUT = 0.6


class Case:
    """An application with a broker of its own, and what arrived where."""

    def __init__(self, url: str, namespace: str, **settings: Any) -> None:
        recording._Channel.queues.clear()
        self.app: Any = Celery(namespace, broker="lab://", set_as_current=False)
        settings = {"publish_timeout": TIMEOUT, "on_unavailable": "broker", **settings}
        self.tq = TQ(self.app, url, **settings)
        self.task = self.tq.task(name="t.noop", shared=False)(nothing)
        self.keys = Keys(namespace)

    def at_the_broker(self) -> list[dict[str, Any]]:
        return recording.Lab.stock(self)  # type: ignore[arg-type]

    def at_the_scheduler(self, server: Any) -> int:
        with server.client() as client:
            return int(client.hlen(self.keys.name("payload")))


def nothing(*_: Any) -> None: ...


@pytest.fixture
def make_case(namespace: str) -> Iterator[Callable[..., Case]]:
    cases: list[Case] = []

    def make(url: str, **settings: Any) -> Case:
        cases.append(Case(url, namespace, **settings))
        return cases[-1]

    yield make
    for each in cases:
        each.tq.producers.close()


def quickly(send: Callable[[], Any], within: float = 0.5) -> Any:
    started = time.monotonic()
    result = send()
    assert time.monotonic() - started < within + BUSY
    return result


def fill(client: Any) -> None:
    client.config_set("maxmemory", "1mb")


def be_replica(client: Any) -> None:
    client.execute_command("REPLICAOF", "127.0.0.1", "1")


def fail_to_save(client: Any) -> None:
    """Let a background save fail, after which the server refuses writes."""
    shutil.rmtree(client.config_get("dir")["dir"])
    client.config_set("save", "3600 1")
    client.set("dirty", 1)
    client.execute_command("BGSAVE")
    wait_until(
        lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", "the save fails"
    )


def need_replicas(client: Any) -> None:
    client.config_set("min-replicas-to-write", "1")


REFUSALS = {
    "OOM": fill,
    "READONLY": be_replica,
    "MISCONF": fail_to_save,
    "NOREPLICAS": need_replicas,
}


@pytest.mark.parametrize(
    ("kind", "word"), [*(("valkey", word) for word in REFUSALS), ("redis", "OOM")]
)
def test_a_server_that_refuses_says_so_soon(
    make_server: Any, make_case: Callable[..., Case], kind: str, word: str
) -> None:
    """celery/celery #5716: out of memory and the like are answered at once, not after the deadline.

    With ``on_unavailable = "broker"`` the task goes to the broker's queue, since it was refused.
    """
    server = make_server(kind)
    case = make_case(server.url, on_unavailable="raise", publish_timeout=30)
    case.task.delay()
    with server.client() as client:
        REFUSALS[word](client)
        with pytest.raises(OperationalError, match=word) as caught:
            quickly(case.task.delay, within=1.2)
        cause = caught.value.__cause__
        assert isinstance(cause, StoreUnavailableError)
        assert (cause.refusal, cause.undone) == (word, True)
        vars(case.tq)["settings"] = type(case.tq.settings)(
            url=server.url, namespace=case.keys.namespace, on_unavailable="broker"
        )
        result = quickly(case.task.delay)
        sent = quickly(lambda: case.tq.submit_many([(case.task,), (case.task, (1,))]), within=1.0)
        client.config_set("save", "")  # or it would try to save before it stops
    assert [each["id"] for each in case.at_the_broker()] == [result.id, *sent]
    assert case.tq.counts.unavailable == 3
    assert case.at_the_scheduler(server) == 1


@pytest.mark.slow
def test_a_server_that_loads_its_data_is_waited_for_a_moment(
    make_server: Any, make_case: Callable[..., Case]
) -> None:
    """LOADING passes by itself, so it is waited for, half a second and not the whole deadline."""
    server = make_server(
        appendonly=True,
        config={"key-load-delay": "0", "loading-process-events-interval-bytes": "1024"},
    )
    with server.client() as client:
        client.eval("for i = 1, 3000 do redis.call('SET', 'k' .. i, i) end", 0)
        client.execute_command("BGREWRITEAOF")
        wait_until(
            lambda: (
                not client.info("persistence")["aof_rewrite_in_progress"]
                and not client.info("persistence")["aof_rewrite_scheduled"]
            ),
            "the append-only file is rewritten",
        )
    server.halt()
    server._config["key-load-delay"] = "1000"
    loading = threading.Thread(target=server.start)
    loading.start()
    try:
        wait_until(lambda: listens(server.port), "the server listens")
        case = make_case(server.url, on_unavailable="raise", publish_timeout=30)
        with pytest.raises(OperationalError, match="LOADING"):
            quickly(case.task.delay, within=2.5)
    finally:
        loading.join()
    case.task.delay()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_server_that_is_not_there(make_case: Callable[..., Case], caplog: Any) -> None:
    """One call after another goes to the broker at once, and the log stays readable."""
    case = make_case("redis://127.0.0.1:1/0", publish_timeout=30)
    with caplog.at_level(logging.WARNING, "tq_celery"):
        ids = [quickly(lambda: case.task.apply_async((1,), tenant="a")).id for _ in range(5)]
        ids += quickly(lambda: case.tq.submit_many([(case.task,)] * 700), within=5)
    sent = case.at_the_broker()
    assert [each["id"] for each in sent] == ids
    assert sent[0]["tq"]["tenant"] == "a"
    assert case.tq.counts.unavailable == 705
    told = [each for each in caplog.records if "went to the broker" in each.getMessage()]
    assert 1 <= len(told) <= 15


def raw_messages(app: Any) -> list[tuple[Any, ...]]:
    """Take and return what is in the queue, as the broker has it."""
    found = []
    with app.connection_for_read() as connection:
        channel = connection.default_channel
        while (message := channel.basic_get("celery", no_ack=True)) is not None:
            properties = {
                name: value
                for name, value in message.properties.items()
                if name not in ("delivery_tag", "application_headers", "delivery_info")
            }
            found.append(
                (message.headers, message.body, properties, message.content_type,
                 message.content_encoding, message.delivery_info["routing_key"])
            )  # fmt: skip
    return found


@pytest.mark.parametrize("broker", ["lab", "redis", pytest.param("rabbit", marks=pytest.mark.slow)])
def test_what_goes_to_the_broker_is_what_stock_celery_sends(
    broker: str, request: pytest.FixtureRequest, namespace: str
) -> None:
    """Headers, body and properties of the message, but for the ``tq`` header."""
    recording._Channel.queues.clear()
    url = "lab://"
    if broker == "redis":
        url = request.getfixturevalue("server").url.replace("/0", "/9")
    elif broker == "rabbit":
        url = request.getfixturevalue("rabbit_server").url
    given = {"task_id": "same", "expires": 3600, "headers": {"mine": 1}, "compression": "gzip"}
    taken = []
    for attached in (False, True):
        app: Any = Celery(namespace, broker=url, set_as_current=False)
        app._local.oid = "oid"  # the reply queue of this thread
        if attached:
            TQ(app, "redis://127.0.0.1:1/0", on_unavailable="broker")
        task = app.task(name="t.noop", shared=False, **({"base": app.tq.Task} if attached else {}))(
            nothing
        )
        for priority in (None, 4):
            number = {} if priority is None else {"priority": priority}
            if number and not attached and broker == "redis":
                number["priority"] = 5
            task.apply_async((1, "é"), {}, **given, **number)
        taken.append(raw_messages(app))
        app.close()
    for messages in taken:
        for headers, *_ in messages:
            headers.pop("tq", None)
            headers.pop("expires")
    stock, detoured = taken
    assert len(stock) == 2
    for ours, theirs in zip(detoured, stock, strict=True):
        for here, there in zip(ours, theirs, strict=True):
            assert here == there


def test_a_delayed_task_is_not_due_earlier_at_the_broker(make_case: Callable[..., Case]) -> None:
    case = make_case("redis://127.0.0.1:1/0")
    case.task.apply_async(countdown=60)
    case.task.apply_async(eta="2040-01-01T00:00:00+00:00")
    first, second = case.at_the_broker()
    assert first["eta"] > time.strftime("%Y-%m-%dT", time.gmtime())
    assert second["eta"].startswith("2040-01-01T00:00:00")


def test_a_server_that_went_away_while_nothing_was_asked(
    make_server: Any, make_case: Callable[..., Case]
) -> None:
    """Seen to fail when an idle connection is not looked at before it is used: then the first call
    has been sent on a dead connection, and nobody knows what became of it."""
    server = make_server()
    case = make_case(server.url)
    case.task.delay()
    server.halt()
    result = quickly(case.task.delay)
    assert [each["id"] for each in case.at_the_broker()] == [result.id]


def test_an_unknown_outcome_is_an_error(make_server: Any, make_case: Callable[..., Case]) -> None:
    """The server took the task and its reply was lost: sending it elsewhere would run it twice."""
    server = make_server()
    with FaultProxy(server.port) as proxy:
        case = make_case(f"redis://127.0.0.1:{proxy.port}/0")
        case.task.delay()
        proxy.stall("down")
        cutting = threading.Timer(0.2, proxy.cut)
        cutting.start()
        with pytest.raises(OperationalError) as caught:
            case.task.delay()
        cutting.join()
        cause = caught.value.__cause__
        assert isinstance(cause, StoreUnavailableError)
        assert not cause.undone
        proxy.heal()
        case.task.delay()
        proxy.stall("down")
        cutting = threading.Timer(0.2, proxy.cut)
        cutting.start()
        with pytest.raises(BulkError) as bulk:
            case.tq.submit_many([(case.task,)] * 3)
        cutting.join()
        assert all(bulk.value.ids)
    assert case.at_the_broker() == []
    assert case.at_the_scheduler(server) == 6
    assert case.tq.counts.unavailable == 0


def test_a_frozen_server(make_server: Any, make_case: Callable[..., Case]) -> None:
    """What was sent to it is unknown; where not even a connection came about, nothing was sent."""
    server = make_server()
    case = make_case(server.url)
    case.task.delay()
    server.pause()
    try:
        with pytest.raises(OperationalError):
            quickly(case.task.delay, within=TIMEOUT + 0.5)
        case.tq.producers.close()
        result = quickly(case.task.delay, within=TIMEOUT + 0.5)
    finally:
        server.resume()
    assert [each["id"] for each in case.at_the_broker()] == [result.id]
    assert case.at_the_scheduler(server) == 1, "and what it comes to later changes nothing"


def test_the_task_decides_before_the_setting(make_case: Callable[..., Case]) -> None:
    case = make_case("redis://127.0.0.1:1/0", on_unavailable="raise")
    own = case.tq.task(name="t.own", on_unavailable="broker")(nothing)
    with pytest.raises(OperationalError):
        case.task.apply_async(retry=False)
    with pytest.raises(BulkError) as caught:
        case.tq.submit_many([(own,), (case.task,), (own,)])
    assert list(caught.value.errors) == [1]
    assert [each["id"] for each in case.at_the_broker()] == [
        each for each in caught.value.ids if each
    ]


def test_a_retry_is_given_back_and_not_sent_elsewhere(make_server: Any, namespace: str) -> None:
    """Only the store can end the try that it replaces, so the broker is no way out."""
    lab = recording.Lab(settings={"on_unavailable": "broker"})

    @lab.tq.task(name="t.again", bind=True)
    def again(self: Any) -> None:
        raise self.retry()

    again.delay()
    refusal = StoreUnavailableError("submit", "OOM", refusal="OOM")
    lab.recorder.errors = [refusal]
    lab.run(lab.taken[0])
    assert lab.stock() == []


@pytest.mark.slow
def test_every_task_runs_once_whatever_happens_to_the_server(
    worker_lab: Callable[..., Any], make_server: Any
) -> None:
    """Half of the calls scheduled, the other half not, and the server refuses, freezes and dies.

    Who got a result has a task that runs once; who got an error has one that runs at most once.
    """
    store = make_server(appendonly=True)
    lab = worker_lab(store=store, fraction=0.5, on_unavailable="broker", publish_timeout=0.5)
    lab.worker("threads")
    sent: list[str] = []
    failed: list[str] = []

    def send(count: int) -> None:
        for _ in range(count):
            task_id = f"task-{len(sent) + len(failed)}"
            try:
                lab.app.tasks["nap"].apply_async((0,), task_id=task_id)
                sent.append(task_id)
            except OperationalError:
                failed.append(task_id)

    send(10)
    lab.client.config_set("maxmemory", "1mb")
    send(10)
    lab.client.config_set("maxmemory", "0")
    send(4)
    store.pause()
    send(6)
    store.resume()
    send(4)
    store.kill()
    send(10)
    store.start()
    send(10)
    counts = lab.app.tq.counts
    assert counts.unavailable > 5
    assert counts.fraction > 10
    runs: dict[str, int] = {}

    def all_ran() -> bool:
        runs.clear()
        for note in lab.runs():
            runs[note["id"]] = runs.get(note["id"], 0) + 1
        return set(sent) <= set(runs)

    wait_until(all_ran, "every task that was sent has run")
    lab.idle()
    all_ran()
    assert {each: runs[each] for each in sent if runs[each] != 1} == {}
    assert all(runs.get(each, 0) <= 1 for each in failed)
