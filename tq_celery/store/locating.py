"""From a task's id to where it waits: first where it was put, then everywhere it may have moved."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tq_celery.store.base import chunks
from tq_celery.store.finding import Batches, RedisFinding, read_members
from tq_celery.store.record import RECORD, TaskKey, split_place
from tq_celery.store.stopping_contract import Found, Located, Removal

__all__ = ["RedisLocating", "known", "raw_id"]

#: Most tasks of one ms that are looked at; bulk submission puts hundreds there.
_CROWD = 2_000
#: Up to as many tasks of one tenant are looked for by the server, one by one.
_FEW = 4


def raw_id(task_id: str) -> bytes:
    """Return an id as the store has it."""
    return task_id.encode("utf-8", "surrogatepass")


def known(ids: Sequence[str], replies: Sequence[Any]) -> dict[str, Located]:
    """Return the located ones of ``ids``; a script answered (key, place) or nil for each."""
    found = {}
    for task_id, reply in zip(ids, replies, strict=True):
        if reply is not None:
            queue, tenant, at = split_place(reply[1])
            found[task_id] = Located(TaskKey.decode(reply[0]), queue, tenant, at)
    return found


class RedisLocating(RedisFinding):
    """Looks for single tasks."""

    def locate(self, ids: Sequence[str]) -> dict[str, Located]:
        found: dict[str, Located] = {}
        for chunk in chunks(ids):
            found.update(known(chunk, self._call("locate", *map(raw_id, chunk))))
        return found

    def _still(self, places: Mapping[bytes, Located]) -> list[Located]:
        """Return those of the places whose task has not ended meanwhile."""
        found = self.locate([place.key.id for place in places.values()])
        return [place for place in found.values() if place.key.encode() in places]

    def _near(self, places: Collection[Located]) -> list[Found]:
        """Return what lies where the tasks were put; most of them are found here, in one step.

        Under an order of arrival a pending task's rank is the ms at which it was taken or due.
        """
        ms = sorted({place.at for place in places})
        pending = sorted({(place.queue, place.tenant, place.at) for place in places})
        bound = ("BYSCORE", "LIMIT", 0, _CROWD)
        delayed, ingress = self.keys.name("delayed"), self.keys.name("ingress")
        commands: list[tuple[Any, ...]] = [("ZRANGE", delayed, at, at, *bound) for at in ms]
        commands += [("XRANGE", ingress, at - 1, at + 1, "COUNT", _CROWD) for at in ms]
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
        yield from self._delivered(places)

    def _delivered(self, places: Mapping[bytes, Located]) -> Batches:
        """Yield the deliveries of the tasks' queues: no more than workers have slots for."""
        for queue in sorted({place.queue for place in places.values()}):
            yield from self.find_exec(queue, lambda queue, tenant: True)
