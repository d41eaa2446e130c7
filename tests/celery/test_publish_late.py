"""What a server comes to after the call has failed changes nothing: no stray publish afterwards."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from kombu.exceptions import OperationalError

from tests.celery.recording import Lab
from tests.waiting import BUSY, wait_until
from tq_celery import TQ, BulkError
from tq_celery.errors import LateError
from tq_celery.store.line import Clock, Line
from tq_celery.store.producers import Producers

TIMEOUT = 0.3


def attach(url: str, namespace: str, **settings: Any) -> tuple[TQ, Any]:
    app = Celery(namespace, broker="memory://", set_as_current=False)
    tq = TQ(app, url, **{"publish_timeout": TIMEOUT, **settings})

    @tq.task(name="t.noop", shared=False)
    def noop(*_: Any) -> None: ...

    return tq, noop


def written(server: Any, namespace: str) -> list[int]:
    """Return how much of the namespace there is, once the server has come to everything."""
    name = f"tq:{{{namespace}}}"
    with server.client() as client:
        client.set(f"after:{namespace}", 1, px=1_000)  # behind whatever was held back
        return [
            client.xlen(f"{name}:ingress"),
            client.zcard(f"{name}:delayed"),
            client.hlen(f"{name}:payload"),
            int(client.hget(f"{name}:counters", "accepted:celery") or 0),
        ]


def fails(send: Callable[[], Any]) -> None:
    started = time.monotonic()
    with pytest.raises((OperationalError, BulkError)):
        send()
    assert time.monotonic() - started < TIMEOUT + BUSY


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_a_frozen_server_takes_nothing_when_it_goes_on(
    make_server: Any, namespace: str, kind: str
) -> None:
    """celery/celery #4296. Without the guard in the script the tries of all three calls are taken:
    commands in the socket are run although their sender has gone."""
    server = make_server(kind)
    tq, noop = attach(server.url, namespace)
    noop.delay()
    server.pause()
    try:
        fails(noop.delay)
        fails(lambda: noop.apply_async(countdown=60))
        fails(lambda: tq.submit_many([(noop,)] * 20))
    finally:
        server.resume()
    assert written(server, namespace) == [1, 0, 1, 1]
    noop.delay()
    assert written(server, namespace) == [2, 0, 2, 2]
    tq.producers.close()


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_paused_writes_are_not_made_up_for(make_server: Any, namespace: str, kind: str) -> None:
    """celery/celery #4296, with ``CLIENT PAUSE ... WRITE``; the sender keeps its connection."""
    server = make_server(kind)
    tq, noop = attach(server.url, namespace, publish_timeout=0.3)
    noop.delay()
    kept = tq.producers.take()
    line = tq.producers.take()
    tq.producers.put_back(kept)
    # A caller that has given up, and whose connection is still there when the pause ends.
    sent = time.monotonic()
    line.be_patient(5.0)
    assert line.start is not None
    with server.client() as client:
        client.execute_command("CLIENT", "PAUSE", 1_500, "WRITE")
    fails(noop.delay)
    late: list[Exception] = []

    def send(own: Line, limits: Any) -> None:
        task = lab.taken[0]
        try:
            own.store.submit(task, limits)
        except LateError as error:
            late.append(error)

    lab = Lab()
    lab.tq.task(name="t.noop", shared=False)(noop.run).delay()
    line.attempt(send, tq.limits, 5.0, sent + 0.3)
    assert len(late) == 1
    assert written(server, namespace) == [1, 0, 1, 1]
    line.close()
    tq.producers.close()


def test_a_clock_that_was_set_does_not_stop_the_producer() -> None:
    """A server whose clock was put forward answers `late` once, and says what time it is."""
    lab = Lab()
    line = Line(lab.recorder, connect=lambda: None)
    line.clock.hear(1_000_000, time.monotonic())
    lab.recorder.errors = [LateError(int(time.time() * 1000))]
    lab.tq.producers = Producers(lab.tq.settings, lambda _: line)
    lab.tq.task(name="t.noop", shared=False)(nothing).delay()
    assert len(lab.taken) == 1
    ahead = (line.clock.server_ms(time.monotonic()) or 0) - time.time() * 1000
    assert abs(ahead) < 1_000


def test_the_clock_is_never_ahead_of_what_was_heard() -> None:
    clock = Clock()
    assert clock.server_ms(time.monotonic()) is None
    now = time.monotonic()
    clock.hear(5_000_000, now - 2.0)  # the answer took up to two seconds
    first = clock.server_ms(now)
    assert first is not None
    assert first <= 5_000_000
    clock.hear(5_000_000 + 900, now - 2.0)  # within what that allows: no reason to move back
    assert clock.server_ms(now) == pytest.approx(first + 900, abs=100)
    clock.hear(1_000, time.monotonic())  # the server's clock was put back
    assert clock.server_ms(now) == pytest.approx(1_000, abs=100)


def nothing() -> None: ...


class Interrupted(Exception):
    """What a soft time limit raises from a signal handler."""


def test_an_interrupted_call_leaves_no_reply_for_the_next_one(
    make_server: Any, namespace: str
) -> None:
    """A soft time limit that strikes while a call waits does not give its reply to the next one."""
    server = make_server()
    tq, noop = attach(server.url, namespace, publish_timeout=5, max_pending=2)
    noop.delay()

    def interrupt(*_: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    server.pause()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Interrupted):
            noop.apply_async(task_id="interrupted")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        server.resume()
    wait_until(lambda: written(server, namespace)[0] == 2, "the interrupted call is taken")
    with pytest.raises(Exception, match="tq_max_pending"):
        noop.delay()
    tq.producers.close()


def test_a_server_that_sleeps_takes_one_call_once(make_server: Any, namespace: str) -> None:
    """redis/redis-py #3554: with a short timeout a client's own repeat made one call into two.

    The call is repeated until the server wakes up, and its late first try changes nothing more.
    """
    server = make_server(config={"enable-debug-command": "local"})
    tq, noop = attach(server.url, namespace, publish_timeout=3.0)
    noop.delay()
    sleeping = threading.Thread(
        target=lambda: server.client().execute_command("DEBUG", "SLEEP", "2.0")
    )
    sleeping.start()
    time.sleep(0.1)
    noop.delay()
    sleeping.join()
    assert written(server, namespace) == [2, 0, 2, 2]
    tq.producers.close()
