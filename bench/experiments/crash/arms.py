"""The two sides: what their workers hold, what the server says is settled, and which request is."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from bench.experiments.crash.acks import AckBook, AckWatch
from bench.experiments.crash.producer import PREFIX
from bench.experiments.crash.stock_app import VISIBILITY
from bench.harness import books
from bench.harness.arms import Arm, RedisArm, TQArm
from bench.harness.servers import RedisServer
from tq_celery.store.keys import Keys
from tq_celery.store.scripts import SCRIPTS

__all__ = ["ARMS", "Side", "side"]

#: Seconds our worker waits for a reply of the store before it tries again: it is to try.
REPLY = 1.0


class Side(Protocol):
    """One arm of this experiment."""

    @property
    def arm(self) -> Arm: ...

    @property
    def settling(self) -> tuple[bytes, ...]:
        """Words that only a request to settle has all of."""

    @property
    def at_once(self) -> int:
        """Most settlements that one worker can have on their way without an answer."""

    def env(self, port: int) -> Mapping[str, str]:
        """Return the environment of a worker that reaches the server at ``port``."""

    def held(self) -> int:
        """Return tasks that workers hold."""

    def settled(self) -> Counter[int]:
        """Return settlements by job, from the server's own books."""

    def broken(self) -> list[str]:
        """Return in words the promises that ``tq verify`` finds broken; none are stock Celery's."""


@dataclass(frozen=True)
class LeasedArm(TQArm):
    """Ours with a lease that worker and scheduler agree about."""

    lease: float = 30.0

    @property
    def env(self) -> Mapping[str, str]:
        return {**super().env, "TQ_LEASE": str(self.lease)}


@dataclass(frozen=True)
class Ours:
    """``TQ`` attached: a settlement is a record in the results stream."""

    arm: LeasedArm
    settling: tuple[bytes, ...] = (SCRIPTS["complete"].sha.encode(),)
    #: They travel in batches, and what was not answered is sent again with what has ended since.
    at_once: int = 1_000_000

    def env(self, port: int) -> Mapping[str, str]:
        return {"TQ_URL": f"redis://127.0.0.1:{port}/0", "TQ_PUBLISH_TIMEOUT": str(REPLY)}

    def held(self) -> int:
        keys = Keys(self.arm.namespace)
        return books.counters(self.arm.server.client, keys)["dispatched"]

    def settled(self) -> Counter[int]:
        records = books.result_records(self.arm.server.client, Keys(self.arm.namespace))
        return Counter(int(each["id"].decode().removeprefix(PREFIX)) for each in records)

    def broken(self) -> list[str]:
        return books.broken(self.arm.server.client, Keys(self.arm.namespace))


@dataclass(frozen=True)
class Stock:
    """Stock Celery on Redis: a settlement is an acknowledgement that the server has carried out."""

    arm: RedisArm
    visibility: float
    book: AckBook
    settling: tuple[bytes, ...] = (b"HDEL", b"unacked")
    #: A worker sends one and waits for its answer before it sends the next.
    at_once: int = 1

    def env(self, port: int) -> Mapping[str, str]:
        return {
            "BASELINE_BROKER": f"redis://127.0.0.1:{port}/0",
            VISIBILITY: str(round(self.visibility)),
        }

    def held(self) -> int:
        return int(self.arm.server.client.hlen("unacked"))

    def settled(self) -> Counter[int]:
        return Counter(self.book.acked)

    def broken(self) -> list[str]:
        return []


ARMS = ("tq", "redis")
_APPS = "bench.experiments.crash"


@contextlib.contextmanager
def side(name: str, server: RedisServer, lease: float) -> Iterator[Side]:
    """Empty the server and yield one of :data:`ARMS` on it."""
    if name == "tq":
        ours = LeasedArm(server, app=f"{_APPS}.tq_app", policy="fifo", lease=lease)
        ours.reset()
        # As on any server in use; otherwise the first request only learns that there is no script.
        server.client.script_load(SCRIPTS["complete"].text)
        yield Ours(ours)
    else:
        stock = RedisArm(server, app=f"{_APPS}.stock_app")
        stock.reset()
        with AckWatch(server.port) as book:
            yield Stock(stock, lease, book)
