"""The scheduler's side of the Redis store: election, ingress, admission, dispatch, reclaim."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import redis

from tq_celery.errors import StoreError, StoreUnavailableError
from tq_celery.store.announcement import WorkerAnnouncement, parse_announcement
from tq_celery.store.base import LONGEST_BLOCK, RedisPart
from tq_celery.store.contract import (
    Admission,
    Arrival,
    Dispatched,
    DueTask,
    Grant,
    Ingress,
    Promotion,
    StaleTenant,
)
from tq_celery.store.due import read_due
from tq_celery.store.record import DELAYED, RECORD
from tq_celery.store.scripts import SCRIPTS, call

__all__ = ["RedisLeader"]


#: Share of the lease's TTL that a grant may wait for its replicas.
CONFIRM = 0.25


def _arrivals(entries: Sequence[tuple[bytes, Sequence[bytes]]]) -> list[Arrival]:
    """Return ingress entries; an unreadable one carries its raw fields and the reason.

    This runs once per task in the leader, beside the server's own work: it has to be short.
    """
    found: list[Arrival] = []
    unpack, start, shortest = DELAYED.unpack_from, DELAYED.size, RECORD.size
    for entry, fields in entries:
        try:
            name, member = fields
            if name != b"d":
                raise KeyError("d")
            _, queue_length, tenant_length = unpack(member)
            middle = start + queue_length
            end = middle + tenant_length
            queue, record = member[start:middle].decode(), member[end:]
            if len(record) <= shortest or not queue:
                raise ValueError("record is too short")
            found.append(Arrival(entry, queue, member[middle:end], record))
        except (KeyError, ValueError, struct.error) as error:
            raw = dict(zip(fields[::2], fields[1::2], strict=False))
            reason = f"unreadable ingress entry: {type(error).__name__}: {error}"
            found.append(Arrival(entry, "", b"", b"", raw, reason))
    return found


class RedisLeader(RedisPart):
    """Implements :class:`~tq_celery.store.contract.LeaderStore`."""

    # -- election ------------------------------------------------------------------------------

    def elect(self, owner: str, ttl: int, floor: int = 0) -> Grant:
        replicas = self.settings.leader_replicas
        if not replicas:
            return Grant(*self._call("elect", owner, ttl, floor))
        with self._one_connection() as single:  # WAIT asks about the writes of its own
            grant = Grant(*call(single, SCRIPTS["elect"], self._prefix, (owner, ttl, floor)))
            if grant.epoch:
                self._confirm(single, owner, grant.epoch, replicas, int(ttl * CONFIRM))
            return grant

    def _one_connection(self) -> redis.Redis:
        try:
            single: redis.Redis = self.client.client()  # type: ignore[no-untyped-call]
            return single
        except (redis.RedisError, OSError) as error:
            raise self._wrap("elect", error) from error

    def _confirm(
        self, single: redis.Redis, owner: str, epoch: int, replicas: int, timeout: int
    ) -> None:
        """Wait up to ``timeout`` ms until so many replicas have the grant; else release it."""
        try:
            having = int(single.wait(replicas, max(1, timeout)))
        except (redis.RedisError, OSError) as error:
            self._release(owner, epoch)
            raise self._wrap("elect", error) from error
        if having < replicas:
            self._release(owner, epoch)
            shown = f"NOREPLICAS {having} of {replicas} replicas have the grant of the lease"
            raise StoreUnavailableError("elect", shown, refusal="NOREPLICAS")

    def _release(self, owner: str, epoch: int) -> None:
        with contextlib.suppress(StoreError):  # it runs out by itself
            self.resign(owner, epoch)

    def extend(self, owner: str, epoch: int, ttl: int) -> bool:
        return bool(self._call("extend", owner, epoch, ttl))

    def resign(self, owner: str, epoch: int) -> bool:
        return bool(self._call("resign", owner, epoch))

    #: The last grant or release that this process has heard of, None when it has to look.
    _heard: Any = None

    def await_succession(self, timeout: int) -> bool:
        # From the last one heard of, and not from "now" on: one that came between a refused elect
        # and this read would leave the lease lying free until its old end.
        stream, heard = self.keys.name("leadership"), self._heard
        self._heard = None
        try:
            if heard is None:
                news: Any = self.blocking.xrevrange(stream, count=1)
            else:
                reply: Any = self.blocking.xread({stream: heard}, block=_block(timeout))
                news = reply[0][1] if reply else []
        except (redis.RedisError, OSError) as error:
            raise self._wrap("elect", error) from error
        self._heard = news[-1][0] if news else heard or b"0-0"
        return heard is None or bool(news)

    # -- ingress -------------------------------------------------------------------------------

    @cached_property
    def _raw(self) -> redis.Redis:
        """The blocking client without the library's parsing, which takes longer than ours."""
        raw = redis.Redis(connection_pool=self.blocking.connection_pool)
        raw.response_callbacks.pop("XREAD", None)
        return raw

    def read_ingress(self, cursor: bytes, count: int, timeout: int) -> Ingress:
        ingress, wake = self.keys.name("ingress"), self.keys.name("wake")
        # One position per stream; an empty cursor is the front of both.
        seen, _, heard = cursor.partition(b" ")
        block = ("BLOCK", _block(timeout)) if timeout > 0 else ()
        try:
            reply: Any = self._raw.execute_command(  # type: ignore[no-untyped-call]
                "XREAD", "COUNT", count, *block,
                "STREAMS", ingress, wake, seen or b"0-0", heard or b"0-0",
            )  # fmt: skip
        except redis.ResponseError as error:
            if "UNBLOCKED" in str(error):
                return Ingress((), frozenset(), b"")
            raise self._wrap("admit", error) from error
        except (redis.RedisError, OSError) as error:
            raise self._wrap("admit", error) from error
        arrivals: list[Arrival] = []
        wakes: set[str] = set()
        for stream, entries in reply or ():
            if stream.endswith(b":wake"):
                wakes.update(fields[1].decode(errors="replace") for _, fields in entries)
                heard = entries[-1][0]
            else:
                arrivals = _arrivals(entries)
                seen = entries[-1][0]
        if not reply:
            # Nothing is left behind the cursor either, unless the server's clock stepped back.
            seen = b"0-0"
        return Ingress(arrivals, frozenset(wakes), seen + b" " + heard)

    def admit(self, epoch: int, generation: int, items: Sequence[Admission]) -> int:
        args: list[Any] = [generation]
        for item in items:
            args += item
        return int(self._fenced_call("admit", epoch, *args))

    def bury_ingress(self, epoch: int, items: Sequence[Arrival]) -> int:
        return sum(
            int(self._fenced_call("bury_ingress", epoch, item.reason, item.entry)) for item in items
        )

    def due(self, count: int) -> tuple[list[DueTask], int | None]:
        ready, following = self._call("due", count)
        tasks = [read_due(ready[i], int(float(ready[i + 1]))) for i in range(0, len(ready), 2)]
        return tasks, None if following < 0 else int(following)

    def bury_delayed(self, epoch: int, items: Sequence[DueTask]) -> int:
        args = [part for item in items for part in (item.member, item.reason)]
        return int(self._fenced_call("bury_delayed", epoch, *args))

    def promote(self, epoch: int, generation: int, items: Sequence[Promotion]) -> int:
        args: list[Any] = [generation]
        for item in items:
            args += item
        return int(self._fenced_call("promote", epoch, *args))

    # -- dispatch ------------------------------------------------------------------------------

    def dispatch(self, epoch: int, queues: Sequence[str], capacity: int, batch: int) -> Dispatched:
        moved, starved, *flying = self._fenced_call("dispatch", epoch, capacity, batch, *queues)
        return Dispatched(moved, bool(starved), dict(zip(queues, flying, strict=True)))

    def config(self) -> dict[str, str]:
        return _texts(self._call("seed"))

    def stale(self, count: int) -> list[StaleTenant]:
        return [
            StaleTenant(queue.decode(), tenant, [(member, 0.0) for member in members])
            for queue, tenant, members in self._call("stale", count)
        ]

    def rerank(
        self,
        epoch: int,
        generation: int,
        queue: str,
        tenant: bytes,
        ranks: Sequence[tuple[bytes, float]],
    ) -> int:
        args: list[Any] = [generation, queue, tenant]
        for member, rank in ranks:
            args += (rank, member)
        return int(self._fenced_call("rerank", epoch, *args))

    def regroup(self, epoch: int, groups: Mapping[str, str]) -> int:
        args = [text for pair in sorted(groups.items()) for text in pair]
        return int(self._fenced_call("regroup", epoch, *args))

    # -- workers -------------------------------------------------------------------------------

    def workers(self) -> tuple[list[WorkerAnnouncement], int]:
        pipeline = self.client.pipeline(transaction=True)
        pipeline.zrange(self.keys.name("workers"), 0, -1, withscores=True)
        pipeline.hgetall(self.keys.name("announcements"))
        pipeline.time()
        # Changes nothing, but is refused where no worker could renew its lease either: a server
        # that only reads is no proof that a lapsed worker has died.
        pipeline.persist(self.keys.name("workers"))
        try:
            leases, offers, (seconds, micros), _ = pipeline.execute()
        except (redis.RedisError, OSError) as error:
            raise self._wrap("renew", error) from error
        found = [
            parse_announcement(worker.decode(errors="replace"), offers.get(worker), int(expires))
            for worker, expires in leases
        ]
        return found, seconds * 1000 + micros // 1000

    def queues(self) -> list[str]:
        try:
            names: Any = self.client.smembers(self.keys.name("queues"))
            return sorted(raw.decode(errors="replace") for raw in names)
        except (redis.RedisError, OSError) as error:
            raise self._wrap("seed", error) from error

    def reclaim(self, worker: str, budget: int, counted: bool, batch: int, spread: int = 0) -> int:
        limits = (*self._limits, self._dead_maxlen, batch, budget)
        return int(self._call("reclaim", worker, *limits, int(counted), spread))

    def reclaim_orphans(self, queue: str, age: int, batch: int) -> int:
        return int(
            self._call("reclaim_orphans", queue, age, *self._limits, self._dead_maxlen, batch)
        )


def _block(timeout: int) -> int:
    """Return a blocking time the server accepts: 0 would block for ever."""
    return max(1, min(timeout, LONGEST_BLOCK))


def _texts(flat: Sequence[bytes] | Mapping[bytes, bytes]) -> dict[str, str]:
    if isinstance(flat, Mapping):
        return {field.decode(): value.decode() for field, value in flat.items()}
    return {flat[i].decode(): flat[i + 1].decode() for i in range(0, len(flat), 2)}
