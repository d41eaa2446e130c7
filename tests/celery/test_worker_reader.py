"""The I/O thread alone, turn by turn, on a real server."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import closing
from threading import Event, Timer
from typing import Any

import pytest

from tests.store.contract.steps import NO_LIMITS, admit_all, task
from tests.waiting import wait_until
from tq_celery.errors import StoreUnavailableError
from tq_celery.settings import Settings
from tq_celery.states import Outcome
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.stopping import RedisStopping
from tq_celery.worker import reader as module
from tq_celery.worker import revocations
from tq_celery.worker.deliveries import DeliveryTable
from tq_celery.worker.reader import Offer, Reader


@pytest.fixture
def reader(store: RedisStore) -> Iterator[Reader]:
    """One that offers a place for tasks of ``q``."""
    store.seed(store.settings)
    settings = Settings(url=store.settings.url, namespace=store.keys.namespace)
    table = DeliveryTable()
    made = Reader(settings, table, lambda: Offer(("q",), 1))
    yield made
    made.split.close()
    made.store.withdraw(made.name)
    made.store.close()
    table.close()


def test_a_read_that_is_never_answered_is_sent_anew(
    reader: Reader,
    store: RedisStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The connection of the read is dead without a word, while all others work.

    celery/celery #10302: alive, healthy to look at, renewing its lease, and consuming nothing.
    What the server handed out on the dead connection is found as well. Seen to fail (nothing ever
    came) when a read was waited for without an end.
    """
    monkeypatch.setattr(module, "BLOCK", 200)
    monkeypatch.setattr(module, "OVERDUE", 0.2)

    def turned() -> bool:
        reader.turn()
        return reader.split.outstanding

    wait_until(turned, "it reads")
    dead, other = socket.socketpair()
    with closing(other), closing(reader.split._connection._sock):
        reader.split._connection._sock = dead  # the server goes on with the other end
        assert store.submit(task("n", queue="q"), NO_LIMITS).status == "accepted"
        admit_all(store)
        assert store.dispatch(1, ["q"], 1, 1).count == 1

        def taken() -> bool:
            reader.turn()
            return len(reader.table) == 1

        with caplog.at_level(logging.WARNING, "tq_celery"):
            wait_until(taken, "the task arrives all the same")
    assert "was not answered in time" in caplog.text
    (held,) = reader.table.waiting
    assert held.delivery.payload == b"payload of n"


def test_a_long_search_for_revoked_tasks_holds_up_neither_lease_nor_reading(
    reader: Reader, store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that heard a revocation looks through all that waits, be it millions of tasks.

    Seen to fail (no turn ended) when the I/O thread searched by itself.
    """
    gate, begun, search = Event(), Event(), RedisStopping.revoke

    def revoke(*args: Any, **options: Any) -> dict[str, str]:
        begun.set()
        assert gate.wait(30)
        return search(*args, **options)

    monkeypatch.setattr(RedisStopping, "revoke", revoke)
    for name in ("waits", "runs"):
        store.submit(task(name, queue="late" if name == "waits" else "q"), NO_LIMITS)
    admit_all(store)
    assert store.dispatch(1, ["q"], 1, 1).count == 1
    reader.revocations.add(["waits"])

    def taken() -> bool:
        reader.turn()
        return len(reader.table) == 1

    opener = Timer(25, gate.set)  # a turn that waits for the search ends, too late
    opener.start()
    try:
        wait_until(taken, "a task arrives while the search goes on", 20)
        assert begun.wait(30), "the search has begun"
        assert store.locate(["waits"])
    finally:
        opener.cancel()
        gate.set()
    wait_until(lambda: not store.locate(["waits"]), "the revoked task is removed")


def test_a_store_that_is_away_is_said_once_and_revocations_are_kept(
    reader: Reader, store: RedisStore, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """Seen to fail (a line for each try) when every failure was logged."""
    monkeypatch.setattr(revocations, "PAUSE", 0.01)
    store.submit(task("n", queue="q"), NO_LIMITS)
    opened: list[int] = []
    original, there = RedisStopping.open_stopping, Event()

    def open_stopping(settings: Settings) -> RedisStopping:
        opened.append(1)
        if not there.is_set():
            raise StoreUnavailableError("revoke", "away")
        return original(settings)

    monkeypatch.setattr(RedisStopping, "open_stopping", open_stopping)
    reader.revocations.add(["n"])

    def tried() -> bool:
        reader.revocations.begin(reader.settings)
        return len(opened) > 3

    with caplog.at_level(logging.WARNING, "tq_celery"):
        wait_until(tried, "it is tried again and again")
        assert caplog.text.count("not written yet") == 1
        there.set()
        reader.revocations.finish(reader.settings, 30)
    assert not store.locate(["n"])


def test_an_end_that_cannot_be_written_yet_is_one_end_for_the_read_ahead(
    reader: Reader, store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the store is away its settlements are tried again, and the slot was freed once.

    Seen to fail (an end for each try) when ends were noted where settlements are written.
    """
    store.submit(task("n", queue="q"), NO_LIMITS)
    admit_all(store)
    assert store.dispatch(1, ["q"], 1, 1).count == 1

    def taken() -> bool:
        reader.turn()
        return len(reader.table) == 1

    wait_until(taken, "the task arrives")
    (held,) = reader.table.waiting
    assert reader.table.claim(held)
    reader.table.settle(held, Outcome.COMPLETED, 1.0, 2.0)
    with monkeypatch.context() as patch:
        patch.setattr(reader.store, "complete", away)
        for _ in range(3):
            with pytest.raises(StoreUnavailableError):
                reader.turn()
    reader.turn()
    assert list(reader._round_trip._ends) == [2.0]
    assert store.client.xlen(store.keys.name("results")) == 1, "settled when the store was back"


def away(*_: object) -> None:
    raise StoreUnavailableError("complete", "it is away")


def test_after_a_failure_the_worker_is_announced_at_once(reader: Reader, store: RedisStore) -> None:
    """The server may be another one by then, which has not heard of the worker or of its epoch.

    Seen to fail when the next renewal was as far off as after any other.
    """
    reader.turn()
    store.client.delete(*map(store.keys.name, ("workers", "announcements")))
    reader.turn()
    assert store.workers()[0] == [], "it is not due yet"
    reader._failed(None)
    reader.turn()
    assert [each.worker for each in store.workers()[0]] == [reader.name]


def test_a_worker_that_hears_nothing_does_not_renew(
    reader: Reader, store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its calls arrive and their answers are lost: it must lapse, for it settles nothing.

    Seen to fail when the first call after a failure was the renewal.
    """
    reader.turn()
    store.client.zadd(store.keys.name("workers"), {reader.name: 1})
    reader._failed(None)

    def unheard(*args: Any) -> dict[str, str]:
        raise StoreUnavailableError("seed", "no answer")

    with monkeypatch.context() as patched:
        patched.setattr(reader.store, "config", unheard)
        with pytest.raises(StoreUnavailableError):
            reader.turn()
    assert store.client.zscore(store.keys.name("workers"), reader.name) == 1
    reader.turn()
    assert store.workers()[0][0].expires > store.workers()[1]


def test_what_was_handed_over_is_announced(reader: Reader, store: RedisStore) -> None:
    """The epoch of the first task and when it was dispatched, for the leader to read."""
    reader.turn()
    store.submit(task("n", queue="q"), NO_LIMITS)
    admit_all(store, 41)
    assert store.dispatch(41, ["q"], 1, 1).count == 1

    def announced() -> bool:
        reader.turn()
        return store.workers()[0][0].epoch == 41

    wait_until(announced, "the worker announces the epoch")
    (held,) = reader.table.waiting
    first = int(held.delivery.token.entry.partition(b"-")[0])
    assert store.workers()[0][0].epoch_since == first
