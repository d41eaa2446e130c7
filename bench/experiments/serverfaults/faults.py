"""What is done to the server. Each is a context manager that yields when it began.

The body of the ``with`` block is the time for which the fault lasts; on the way out it is over, and
the server answers again when the block has been left.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import redis

from bench.experiments.serverfaults.server import FaultServer
from bench.harness.errors import BenchError
from bench.harness.process import until

__all__ = [
    "busy", "connections_killed", "flushed", "full", "killed", "loading", "paused", "power_lost",
    "read_only", "scripts_flushed", "shut_down", "stepped",
]  # fmt: skip

Happening = Callable[[FaultServer, float], AbstractContextManager[float]]

#: Bytes that another user of a server writes at a time until it is full, the room it has, and by
#: how much it is over the limit then, so that what is freed meanwhile changes nothing.
_BLOCK, _ROOM, _BEYOND = 1 << 18, 8 << 20, 2 << 20
#: Keys that a server loads, so many microseconds each.
_KEYS = 10_000
#: Keeps the server to itself for so many rounds; and the rounds to find out how long one takes.
_SPIN, _ROUNDS = "for round = 1, tonumber(ARGV[1]) do end", 10_000_000


@contextmanager
def shut_down(server: FaultServer, seconds: float) -> Iterator[float]:
    """SHUTDOWN, and a start after ``seconds``."""
    began = time.monotonic()
    server.shut_down()
    yield began
    server.start()


@contextmanager
def killed(server: FaultServer, seconds: float) -> Iterator[float]:
    """SIGKILL, and a start after ``seconds``."""
    began = time.monotonic()
    server.kill()
    yield began
    server.start()


@contextmanager
def power_lost(server: FaultServer, seconds: float) -> Iterator[float]:
    """SIGKILL, and of the file only what had been written a second before.

    A killed process leaves to the disk what the kernel holds, a machine without power does not.
    """
    size = server.file.stat().st_size
    time.sleep(1.0)
    began = time.monotonic()
    server.kill()
    os.truncate(server.file, size)
    yield began
    server.start()


@contextmanager
def loading(server: FaultServer, seconds: float) -> Iterator[float]:
    """A restart with data that takes ``seconds`` to load."""
    client = server.client
    client.mset({f"filler-{number}": number for number in range(_KEYS)})
    client.bgrewriteaof()  # in the file's first part each key is loaded by itself

    def rewritten() -> bool:
        info = client.info("persistence")
        return not info["aof_rewrite_in_progress"] and not info.get("aof_rewrite_scheduled")

    until(rewritten, "the file to be rewritten", 30)
    server.load_slowly(round(seconds / _KEYS * 1e6))
    began = time.monotonic()
    server.shut_down()
    with _meanwhile(server.start):
        yield began


@contextmanager
def busy(server: FaultServer, seconds: float) -> Iterator[float]:
    """A script of somebody else's that keeps the server to itself for ``seconds``."""
    with redis.Redis(port=server.port, socket_timeout=None) as other:
        spin: Any = other.eval
        began = time.monotonic()
        spin(_SPIN, 0, _ROUNDS)
        rounds = round(_ROUNDS * seconds / (time.monotonic() - began))
        began = time.monotonic()
        with _meanwhile(lambda: spin(_SPIN, 0, rounds)):
            yield began


@contextmanager
def paused(server: FaultServer, seconds: float) -> Iterator[float]:
    """CLIENT PAUSE for ``seconds``: every command waits."""
    began = time.monotonic()
    server.client.client_pause(round(seconds * 1000))
    yield began
    with redis.Redis(port=server.port, socket_timeout=None) as patient:
        patient.ping()


@contextmanager
def read_only(server: FaultServer, seconds: float) -> Iterator[float]:
    """A demotion: the server becomes a replica for ``seconds``, of one that is not there."""
    began = time.monotonic()
    server.client.execute_command("REPLICAOF", "127.0.0.1", "1")
    yield began
    server.client.execute_command("REPLICAOF", "NO", "ONE")


@contextmanager
def full(server: FaultServer, seconds: float) -> Iterator[float]:
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
    yield time.monotonic()
    client.delete(*(f"filler-{number}" for number in range(blocks)))


@contextmanager
def flushed(server: FaultServer, seconds: float) -> Iterator[float]:
    """FLUSHALL."""
    began = time.monotonic()
    server.client.flushall()
    yield began


@contextmanager
def scripts_flushed(server: FaultServer, seconds: float) -> Iterator[float]:
    """SCRIPT FLUSH ten times a second."""
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        server.client.script_flush()
        time.sleep(0.1)
    yield began


@contextmanager
def connections_killed(server: FaultServer, seconds: float) -> Iterator[float]:
    """CLIENT KILL of everyone else, twice a second."""
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        server.client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.5)
    yield began


def stepped(shift: int) -> Happening:
    """Return the fault that sets the server's clock ``shift`` seconds on."""

    @contextmanager
    def step(server: FaultServer, seconds: float) -> Iterator[float]:
        if server.clock is None:
            raise BenchError("a server with a clock of its own is needed")
        began = time.monotonic()
        server.clock.step(shift)
        until(lambda: _shows(server, shift), "the server to show the step", 10)
        yield began

    return step


def _shows(server: FaultServer, shift: int) -> bool:
    seconds, _ = server.client.time()
    return bool(abs(seconds - time.time() - shift) < 10)


@contextmanager
def _meanwhile(step: Callable[[], object]) -> Iterator[None]:
    """Do ``step`` in a thread during the block, and wait for it; what it raises is raised."""
    failed: list[Exception] = []

    def run() -> None:
        try:
            step()
        except Exception as error:  # noqa: BLE001 - raised below, in the caller's thread
            failed.append(error)

    thread = threading.Thread(target=run, name="fault")
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failed:
        raise failed[0]
