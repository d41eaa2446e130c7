"""What can be seen of a worker that is lost: what it held, and its stamps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.harness.errors import BenchError
from bench.harness.failures.scene import Scene
from bench.harness.process import Process
from tq_celery.store.keys import GROUP, Keys
from tq_celery.store.record import DELIVERY, TaskKey

__all__ = ["QUEUE", "held", "name_of", "stamp_error"]

#: Everything here is sent to Celery's default queue.
QUEUE = "celery"
#: Most deliveries that a worker of these experiments can hold.
MOST = 1_000


def name_of(scene: Scene, worker: Process) -> str:
    """Return the name under which ``worker`` reads and settles; raises BenchError."""
    word = f"-{worker.pid}-".encode()
    for name in scene.client.hkeys(scene.keys.name("announcements")):
        if word in name:
            return str(name.decode())
    raise BenchError(f"{worker.name} has not announced itself")


def held(scene: Scene, name: str) -> set[str]:
    """Return the ids of the tasks that worker ``name`` has read and not settled."""
    stream = scene.keys.of_queue("exec", QUEUE)
    found = set[str]()
    for each in scene.client.xpending_range(stream, GROUP, "-", "+", MOST, name):
        for _, fields in scene.client.xrange(stream, each["message_id"], each["message_id"]):
            found.add(TaskKey.decode(fields[b"d"][DELIVERY.size :]).id)
    return found


def stamp_error(client: Any, keys: Keys) -> float:
    """Return by how many ms a worker's stamps contradict the server's, at worst.

    A body starts after its dispatch and ends before its settlement, both on the server's clock.
    """
    return max(_errors(client.xrange(keys.name("results"))), default=0.0)


def _errors(entries: list[tuple[bytes, dict[bytes, bytes]]]) -> Iterator[float]:
    for entry, fields in entries:
        dispatched, started, finished = (
            float(fields[word]) for word in (b"dispatched", b"started", b"finished")
        )
        if started and finished:
            settled = int(entry.partition(b"-")[0])
            yield max(0.0, dispatched - started, finished - settled)
