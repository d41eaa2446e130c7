"""From a task's id to where it waits: first where it was put, then everywhere it may have moved."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tq_celery.store.base import chunks
from tq_celery.store.contract import MAX_BATCH
from tq_celery.store.finding import Batches, RedisFinding, read_members
from tq_celery.store.record import RECORD, TaskKey
from tq_celery.store.stopping_contract import Found, Located, Removal

__all__ = ["RedisLocating", "known", "raw_id", "unpack_id", "unpack_place"]

#: An entry of ``ids`` and of ``draining``: ms, lengths of queue and tenant; then both and the rest.
_PLACE = struct.Struct(">QHH")
#: Up to as many tasks of one tenant are looked for by the server, one by one.
_FEW = 4


def raw_id(task_id: str) -> bytes:
    """Return an id as the store has it."""
    return task_id.encode("utf-8", "surrogatepass")


def unpack_place(raw: bytes) -> tuple[int, str, bytes, bytes]:
    """Return ms, queue, tenant and the rest of an entry of ``ids`` or ``draining``."""
    at, queue, tenant = _PLACE.unpack_from(raw)
    middle, end = _PLACE.size + queue, _PLACE.size + queue + tenant
    return at, raw[_PLACE.size : middle].decode(), raw[middle:end], raw[end:]


def unpack_id(raw: bytes) -> Located:
    """Return what an entry of ``ids`` says."""
    at, queue, tenant, key = unpack_place(raw)
    return Located(TaskKey.decode(key), queue, tenant, at)


def known(ids: Sequence[str], entries: Sequence[bytes | None]) -> dict[str, Located]:
    """Return the located ones of ``ids``, whose entries are given in the same order."""
    return {
        task_id: unpack_id(entry)
        for task_id, entry in zip(ids, entries, strict=True)
        if entry is not None
    }


class RedisLocating(RedisFinding):
    """Looks for single tasks."""

    def locate(self, ids: Sequence[str]) -> dict[str, Located]:
        found: dict[str, Located] = {}
        for chunk in chunks(ids):
            (entries,) = self._ask([("HMGET", self.keys.name("ids"), *map(raw_id, chunk))])
            found.update(known(chunk, entries))
        return found

    def _near(self, places: Collection[Located]) -> list[Found]:
        """Return what lies where the tasks were put; most of them are found here, in one step.

        Under an order of arrival a pending task's rank is the ms at which it was taken or due.
        """
        ms = sorted({place.at for place in places})
        pending = sorted({(place.queue, place.tenant, place.at) for place in places})
        bound = ("BYSCORE", "LIMIT", 0, MAX_BATCH)
        delayed, ingress = self.keys.name("delayed"), self.keys.name("ingress")
        commands: list[tuple[Any, ...]] = [("ZRANGE", delayed, at, at, *bound) for at in ms]
        commands += [("XRANGE", ingress, at - 1, at + 1, "COUNT", MAX_BATCH) for at in ms]
        commands += [
            ("ZRANGE", self.keys.of_tenant("pending", queue, tenant), at - 1, at + 1, *bound)
            for queue, tenant, at in pending
        ]
        replies = self._ask(commands)
        count = len(ms)
        found: list[Found] = []
        for members in replies[:count]:
            found += read_members("delayed", [(member, member) for member in members])
        for entries in replies[count : 2 * count]:
            found += read_members("ingress", [(e, fields.get(b"d", b"")) for e, fields in entries])
        for (queue, tenant, _), members in zip(pending, replies[2 * count :], strict=True):
            found += [
                Found(Removal("pending", queue, tenant, member), member[RECORD.size :])
                for member in members
            ]
        return found

    def _everywhere(self, places: Mapping[bytes, Located]) -> Batches:
        """Yield what waits wherever the tasks (key -> place) may be, in the order they move."""
        queues = {place.queue for place in places.values()}

        def wanted(queue: str, tenant: bytes) -> bool:
            return queue in queues

        yield from self.find_delayed(wanted)
        yield from self.find_ingress(wanted)
        by_tenant: dict[tuple[str, bytes], list[bytes]] = {}
        for wanted_key, place in places.items():
            by_tenant.setdefault((place.queue, place.tenant), []).append(wanted_key)
        for (queue, tenant), keys in by_tenant.items():
            searches: list[bytes | None] = [*keys] if len(keys) <= _FEW else [None]
            for key in searches:
                yield from self.find_pending(queue, tenant, key)
        for queue in sorted(queues):
            yield from self.find_exec(queue, wanted)
