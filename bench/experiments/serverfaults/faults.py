"""What is done to the server. Each is a context manager that yields a :class:`Span`.

The body of the ``with`` block is the time for which the fault lasts. On the way out it is ended, or
waited for, and the server answers again when the block has been left.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import redis

from bench.experiments.serverfaults.server import FaultServer
from bench.harness.errors import BenchError
from bench.harness.process import until

__all__ = [
    "Happening", "Span", "busy", "connections_killed", "flushed", "full", "killed", "loading",
    "paused", "power_lost", "read_only", "scripts_flushed", "shut_down", "stepped",
]  # fmt: skip


@dataclass
class Span:
    """When a fault began and was over, monotonic seconds."""

    began: float
    over: float | None = None


Happening = Callable[[FaultServer, float], AbstractContextManager[Span]]

#: Bytes that another user of a server writes at a time until it is full, the room it has, and by
#: how much it is over the limit then, so that what is freed meanwhile changes nothing.
_BLOCK, _ROOM, _BEYOND = 1 << 18, 8 << 20, 2 << 20
#: Keys that a server loads, so many microseconds each.
_KEYS = 2_500
#: Keeps the server to itself until it is killed, and what it is told then.
_SPIN, _KILLED = "while true do end", "SCRIPT KILL"


@contextmanager
def shut_down(server: FaultServer, seconds: float) -> Iterator[Span]:
    """SHUTDOWN, and a start after ``seconds``."""
    began = time.monotonic()
    server.shut_down()
    yield Span(began)
    server.start()


@contextmanager
def killed(server: FaultServer, seconds: float) -> Iterator[Span]:
    """SIGKILL, and a start after ``seconds``."""
    began = time.monotonic()
    server.kill()
    yield Span(began)
    server.start()


@contextmanager
def power_lost(server: FaultServer, seconds: float) -> Iterator[Span]:
    """SIGKILL, and of the file only what had been written a second before.

    A killed process leaves to the disk what the kernel holds, a machine without power does not.
    """
    size = server.file.stat().st_size
    time.sleep(1.0)
    began = time.monotonic()
    server.kill()
    os.truncate(server.file, size)
    yield Span(began)
    server.start()


@contextmanager
def loading(server: FaultServer, seconds: float) -> Iterator[Span]:
    """A restart with data that takes ``seconds`` to load."""
    client = server.client
    client.mset({f"filler-{number}": number for number in range(_KEYS)})
    client.bgrewriteaof()  # in the file's first part each key is loaded by itself

    def rewritten() -> bool:
        info = client.info("persistence")
        return not info["aof_rewrite_in_progress"] and not info.get("aof_rewrite_scheduled")

    until(rewritten, "the file to be rewritten", 30)
    server.load_slowly(round(seconds / _KEYS * 1e6))
    span = Span(time.monotonic())
    server.shut_down()
    with _meanwhile(server.start, span):
        yield span


@contextmanager
def busy(server: FaultServer, seconds: float) -> Iterator[Span]:
    """A script of somebody else's keeps the server to itself, until SCRIPT KILL after ``seconds``.

    A server listens to that, and tells others that it is busy, from 5 s on.
    """
    with redis.Redis(port=server.port, socket_timeout=None) as other:
        server.client.ping()  # is connected, and will be heard
        span = Span(time.monotonic())
        with _meanwhile(lambda: _spin(other), span):
            try:
                yield span
            finally:
                server.client.script_kill()


def _spin(other: Any) -> None:
    try:
        other.eval(_SPIN, 0)
    except redis.ResponseError as error:
        if _KILLED not in str(error):
            raise


@contextmanager
def paused(server: FaultServer, seconds: float) -> Iterator[Span]:
    """CLIENT PAUSE for ``seconds``: every command waits."""
    began = time.monotonic()
    server.client.client_pause(round(seconds * 1000))
    yield Span(began)
    with redis.Redis(port=server.port, socket_timeout=None) as patient:
        patient.ping()


@contextmanager
def read_only(server: FaultServer, seconds: float) -> Iterator[Span]:
    """A demotion: the server becomes a replica for ``seconds``, of one that is not there."""
    began = time.monotonic()
    server.client.execute_command("REPLICAOF", "127.0.0.1", "1")
    yield Span(began)
    server.client.execute_command("REPLICAOF", "NO", "ONE")


@contextmanager
def full(server: FaultServer, seconds: float) -> Iterator[Span]:
    """Another user writes until ``maxmemory`` is reached and exceeded; then that is removed."""
    client = server.client
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", client.info("memory")["used_memory"] + _ROOM)
    blocks = 0
    try:
        while True:
            client.set(f"filler-{blocks}", bytes(_BLOCK))
            blocks += 1
    except redis.exceptions.OutOfMemoryError:
        client.config_set("maxmemory", client.info("memory")["used_memory"] - _BEYOND)
    yield Span(time.monotonic())
    client.delete(*(f"filler-{number}" for number in range(blocks)))


@contextmanager
def flushed(server: FaultServer, seconds: float) -> Iterator[Span]:
    """FLUSHALL."""
    began = time.monotonic()
    server.client.flushall()
    yield Span(began)


@contextmanager
def scripts_flushed(server: FaultServer, seconds: float) -> Iterator[Span]:
    """SCRIPT FLUSH ten times a second."""
    yield _over_and_over(server.client.script_flush, 0.1, seconds)


@contextmanager
def connections_killed(server: FaultServer, seconds: float) -> Iterator[Span]:
    """CLIENT KILL of everyone else, twice a second."""
    words = ("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    yield _over_and_over(lambda: server.client.execute_command(*words), 0.5, seconds)


def _over_and_over(step: Callable[[], object], every: float, seconds: float) -> Span:
    """Do ``step`` for ``seconds``; the last time is the end of the fault."""
    span = Span(time.monotonic())
    while time.monotonic() < span.began + seconds:
        if span.over is not None:
            time.sleep(every)
        step()
        span.over = time.monotonic()
    return span


def stepped(shift: int) -> Happening:
    """Return the fault that sets the server's clock ``shift`` seconds on."""

    @contextmanager
    def step(server: FaultServer, seconds: float) -> Iterator[Span]:
        if server.clock is None:
            raise BenchError("a server with a clock of its own is needed")
        began = time.monotonic()
        server.clock.step(shift)
        until(lambda: _shows(server, shift), "the server to show the step", 10)
        yield Span(began)

    return step


def _shows(server: FaultServer, shift: int) -> bool:
    seconds, _ = server.client.time()
    return bool(abs(seconds - time.time() - shift) < 10)


@contextmanager
def _meanwhile(step: Callable[[], object], span: Span) -> Iterator[None]:
    """Do ``step`` in a thread during the block: its end is the fault's. Raises what it raises."""
    failed: list[Exception] = []

    def run() -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - raised below, in the caller's thread
            failed.append(error)
        span.over = time.monotonic()

    thread = threading.Thread(target=run, name="fault")
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failed:
        raise failed[0]
