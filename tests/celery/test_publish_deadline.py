"""A call ends within its deadline whatever the server does, and repeats change nothing."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from tests.celery.recording import Lab
from tests.waiting import BUSY
from tq_celery import TQ, BulkError, PayloadTooLargeError, QueueFullError, StoreUnavailableError
from tq_celery.store.producers import Line, Producers

#: Seconds for a call in these tests.
TIMEOUT = 1.5


def attach(url: str, namespace: str, **settings: Any) -> tuple[TQ, Any]:
    app = Celery(namespace, broker="memory://", set_as_current=False)
    tq = TQ(app, url, **{"publish_timeout": TIMEOUT, **settings})

    @tq.task(name="t.noop", shared=False)
    def noop(*_: Any) -> None: ...

    return tq, noop


@pytest.fixture
def black_hole() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as hole:
        yield f"redis://127.0.0.1:{hole.getsockname()[1]}/0"


def fails_in_time(send: Callable[[], Any]) -> None:
    started = time.monotonic()
    with pytest.raises(OperationalError) as caught:
        send()
    assert time.monotonic() - started < TIMEOUT + BUSY
    assert isinstance(caught.value.__cause__, StoreUnavailableError)


def test_stopped_server(make_server: Any, namespace: str) -> None:
    """celery/celery #4296: raised after 19 s."""
    server = make_server()
    tq, noop = attach(server.url, namespace)
    noop.delay()
    server.stop()
    fails_in_time(noop.delay)
    fails_in_time(lambda: noop.apply_async(retry=False))
    tq.producers.close()


def test_server_that_never_answers(black_hole: str, namespace: str) -> None:
    """celery/celery #4296."""
    _, noop = attach(black_hole, namespace)
    fails_in_time(noop.delay)


def test_sentinels_that_never_answer(namespace: str) -> None:
    """Together they have the time of one call; each had all of it."""
    with contextlib.ExitStack() as stack:
        holes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
        hosts = ",".join(f"127.0.0.1:{hole.getsockname()[1]}" for hole in holes)
        _, noop = attach(f"sentinel://{hosts}/mymaster", namespace)
        fails_in_time(noop.delay)


def test_an_address_that_takes_no_connection(namespace: str) -> None:
    """celery/celery #4296, where not even the connection is answered: its line is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as hole, ExitStack() as line:
        address = hole.getsockname()
        for _ in range(2):
            caller = line.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(address)
        app = Celery(namespace, broker="memory://", set_as_current=False)
        tq = TQ(app, f"redis://127.0.0.1:{address[1]}/0", publish_timeout=0.4)
        noop = tq.task(name="t.noop", shared=False)(nothing)
        started = time.monotonic()
        with pytest.raises(OperationalError, match="connecting"):
            noop.delay()
        assert time.monotonic() - started < 0.4 + BUSY


def test_paused_writes(make_server: Any, namespace: str) -> None:
    """celery/celery #4296: still blocked after 40 s; other threads are not held up either."""
    server = make_server()
    tq, noop = attach(server.url, namespace)
    noop.delay()
    with server.client() as client:
        client.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
        threads = [threading.Thread(target=fails_in_time, args=(noop.delay,)) for _ in range(3)]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        fails_in_time(noop.delay)
        for thread in threads:
            thread.join()
        assert time.monotonic() - started < TIMEOUT + BUSY
        client.execute_command("CLIENT", "UNPAUSE")
        assert client.xlen(f"tq:{{{namespace}}}:ingress") == 1
    noop.delay()
    tq.producers.close()


def test_frozen_server(make_server: Any, namespace: str) -> None:
    """celery/celery #4296. A server that goes on at the very moment of the error takes nothing.

    Seen to fail when the last try ended a little before the moment that the server had been told.
    """
    server = make_server()
    tq, noop = attach(server.url, namespace)
    noop.delay()
    server.pause()
    try:
        fails_in_time(noop.delay)
    finally:
        server.resume()
    with server.client() as client:
        client.ping()  # what waited in other sockets was read by the time of the next command
        assert client.xlen(f"tq:{{{namespace}}}:ingress") == 1
    noop.delay()
    tq.producers.close()


@pytest.mark.parametrize("way", ["delay", "bulk", "in a task"])
@pytest.mark.parametrize("fault", ["stopped", "paused", "frozen", "black hole"])
def test_the_first_call_of_a_process_with_a_redis_result_backend(
    make_server: Any, namespace: str, black_hole: str, fault: str, way: str
) -> None:
    """celery/celery #4296: the result backend, on the same server, raised after 19 s or never.

    Nothing was connected before, so every wait there can be is met: connecting to the server, to
    the result backend, and the reply. Seen to hang when the backend subscribes as in stock Celery.
    """
    server = make_server()
    url = black_hole if fault == "black hole" else server.url
    app = Celery(namespace, broker="memory://", backend=url, set_as_current=False)
    tq = TQ(app, url, publish_timeout=0.4)
    noop = tq.task(name="t.noop", shared=False)(nothing)
    with server.client() as client:
        {
            "stopped": server.halt,
            "paused": lambda: client.execute_command("CLIENT", "PAUSE", 120_000, "WRITE"),
            "frozen": server.pause,
            "black hole": lambda: None,
        }[fault]()
        started = time.monotonic()
        try:
            with pytest.raises((OperationalError, BulkError)):
                if way == "delay":
                    noop.delay()
                elif way == "bulk":
                    tq.submit_many([(noop,)] * 3)
                else:

                    def outer() -> None:
                        noop.delay()

                    app.task(name="t.outer", shared=False)(outer).apply(throw=True)
            assert time.monotonic() - started < 0.4 + BUSY
        finally:
            if fault == "frozen":
                server.resume()
            if fault == "paused":
                client.execute_command("CLIENT", "UNPAUSE")


def nothing() -> None: ...


def test_a_restart_inside_the_deadline_is_not_noticed(make_server: Any, namespace: str) -> None:
    server = make_server(appendonly=True)
    app = Celery(namespace, broker="memory://", set_as_current=False)
    tq = TQ(app, server.url, publish_timeout=20)

    @tq.task(name="t.noop", shared=False)
    def noop() -> None: ...

    noop.delay()
    server.stop()
    late = threading.Timer(0.3, server.start)
    late.start()
    noop.delay()
    late.join()
    with server.client() as client:
        assert client.xlen(f"tq:{{{namespace}}}:ingress") >= 1
    tq.producers.close()


def test_random_stalls_send_nothing_twice(make_server: Any, namespace: str) -> None:
    """redis/redis-py #3554: a reply that is lost made one call into two entries."""
    server = make_server()
    tq, noop = attach(server.url, namespace)
    noop.delay()
    stop = threading.Event()
    chance = random.Random(7)

    def stall() -> None:
        while not stop.is_set():
            server.pause()
            time.sleep(chance.uniform(0.0, TIMEOUT / 2.2))
            server.resume()
            time.sleep(0.01)

    stalling = threading.Thread(target=stall)
    stalling.start()
    accepted = unknown = 0
    try:
        for _ in range(12):
            result_id = f"id-{accepted + unknown}"
            try:
                noop.apply_async(task_id=result_id)
                accepted += 1
            except OperationalError:
                unknown += 1
    finally:
        stop.set()
        stalling.join()
    # Whoever saw an error may send the same id again.
    for number in range(accepted + unknown):
        noop.apply_async(task_id=f"id-{number}")
    with server.client() as client:
        assert client.xlen(f"tq:{{{namespace}}}:ingress") == 1 + accepted + unknown
    tq.producers.close()


def test_refusals_are_typed_and_not_repeated(any_server: Any, namespace: str) -> None:
    """Too much work pushes back on who sends it (taskiq-python/taskiq-redis #114)."""
    limits = {"max_pending_queue": 1, "max_payload": 2_000}
    tq, noop = attach(any_server.url, namespace, publish_timeout=20, **limits)
    with pytest.raises(PayloadTooLargeError, match="tq_max_payload allows 2000"):
        noop.delay("x" * 3_000)
    noop.delay()
    started = time.monotonic()
    with pytest.raises(QueueFullError) as caught:
        noop.delay()
    assert time.monotonic() - started < 1 + BUSY
    assert (caught.value.scope, caught.value.limit) == ("queue", 1)
    tq.producers.close()


def test_pauses_between_tries_end_with_the_deadline() -> None:
    lab = Lab(settings={"publish_timeout": 0.6})
    lab.recorder.errors = [StoreUnavailableError("submit", "away")] * 3
    lab.tq.producers = Producers(lab.tq.settings, lambda _: Line(lab.recorder))

    @lab.tq.task(name="t.noop", shared=False)
    def noop() -> None: ...

    noop.delay()
    assert len(lab.taken) == 1
    lab.recorder.errors = [StoreUnavailableError("submit", "away")] * 1
    with pytest.raises(OperationalError):
        noop.apply_async(retry=False)
    assert lab.recorder.errors == []
    vars(lab.tq.publisher).pop("_retries")
    lab.app.conf.task_publish_retry = False
    lab.recorder.errors = [StoreUnavailableError("submit", "away")] * 2
    with pytest.raises(OperationalError):
        noop.delay()
    assert len(lab.recorder.errors) == 1
    noop.apply_async(retry=True, retry_policy={"max_retries": 1})
    assert lab.recorder.errors == []
