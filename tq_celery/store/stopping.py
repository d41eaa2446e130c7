"""Revoking, purging, listing and draining on a server; see the contract for what is promised."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tq_celery.settings import Settings
from tq_celery.store.base import chunks
from tq_celery.store.client import connect
from tq_celery.store.contract import MAX_BATCH
from tq_celery.store.due import read_due
from tq_celery.store.locating import RedisLocating, known, raw_id
from tq_celery.store.record import RECORD, TaskKey, split_stored, unpack_delayed, unpack_record
from tq_celery.store.stamps import stamp_mark, stamps_of
from tq_celery.store.stopping_contract import (
    MARK_EXPIRES,
    MAX_MARKS,
    Delayed,
    Drained,
    Found,
    Located,
    Removal,
)

__all__ = ["RedisStopping"]

#: Searches for one task before it counts as being in a worker's hands.
_ROUNDS = 3
#: Passes of one purge; a task that came back meanwhile is found by the next.
_PASSES = 3
#: An entry of ``draining``: due ms, then the task as in the delayed set.
_DUE = struct.Struct(">Q")
#: Fewest delayed members that a listing may look at.
_LOOK = 10_000


class RedisStopping(RedisLocating):
    """Implements :class:`~tq_celery.store.stopping_contract.StoppingStore`."""

    @classmethod
    def open_stopping(cls, settings: Settings) -> RedisStopping:
        """Connect with one client, for an application that stops tasks and does nothing else."""
        client = connect(settings.url, timeout=settings.publish_timeout)
        return RedisStopping(client, settings.namespace, settings=settings)

    # -- by id ---------------------------------------------------------------------------------

    def revoke(
        self, ids: Sequence[str], *, reason: str = "revoked", expires: int = MARK_EXPIRES
    ) -> dict[str, str]:
        result: dict[str, str] = {}
        for chunk in chunks(list(dict.fromkeys(ids))):
            entries = self._call("revoke", "revoked", expires, MAX_MARKS, *map(raw_id, chunk))
            wanted = known(chunk, entries)
            found = self._remove_located(wanted, reason)
            result.update({each: found.get(each, "unknown") for each in chunk})
        return result

    def _remove_located(self, wanted: Mapping[str, Located], reason: str) -> dict[str, str]:
        """Find and remove located tasks; tells which were removed and which a worker has."""
        left = {place.key.encode(): place for place in wanted.values()}
        result: dict[str, str] = {}

        def take(batch: Iterable[Found]) -> None:
            hits = [found for found in batch if found.key in left]
            gone = self.remove([found.item for found in hits], reason=reason)
            for found, done in zip(hits, gone, strict=True):
                if done and found.key in left:
                    result[left.pop(found.key).key.id] = "revoked"

        def search(batches: Iterable[Sequence[Found]]) -> None:
            held: set[bytes] = set()
            for batch in batches:
                held |= {found.key for found in batch if found.item.where == "exec"}
                take(batch)
            # what is among the deliveries and was not removed has been read by a worker
            for key in held & left.keys():
                result[left.pop(key).key.id] = "dispatched"

        if left:
            take(self._near(list(left.values())))
            # what runs is found here, before a look at all that waits
            search(self._delivered(left))
        for _ in range(_ROUNDS):
            if not left:
                break
            search(self._everywhere(left))
            left = {place.key.encode(): place for place in self._still(left)}
        return result

    def revoke_stamped(
        self,
        stamps: Mapping[str, Sequence[str]],
        *,
        reason: str = "revoked",
        expires: int = MARK_EXPIRES,
    ) -> int:
        marked = {stamp_mark(header, value) for header in stamps for value in stamps[header]}
        for chunk in chunks(sorted(marked)):
            self._call("revoke", "revoked_stamps", expires, MAX_MARKS, *chunk)
        removed = 0
        for batch in self.waiting() if marked else ():
            payloads = self.messages([found.key for found in batch])
            hits = [
                found.item
                for found, payload in zip(batch, payloads, strict=True)
                if any(stamp_mark(*stamp) in marked for stamp in stamps_of(payload))
            ]
            removed += sum(self.remove(hits, reason=reason))
        return removed

    # -- by place ------------------------------------------------------------------------------

    def remove(self, items: Sequence[Removal], *, reason: str = "revoked") -> list[bool]:
        return self._take_out("revoked", reason, items)

    def purge(
        self,
        queues: Sequence[str] | None = None,
        *,
        tenant: bytes | None = None,
        reason: str = "purged",
    ) -> int:
        purged = 0
        for _ in range(_PASSES):
            before = purged
            for batch in self.waiting(queues, tenant=tenant):
                purged += sum(self.remove([found.item for found in batch], reason=reason))
            if purged == before:
                break
        return purged

    def delayed(self, queues: Sequence[str] | None = None, limit: int = 100) -> list[Delayed]:
        name, found, start = self.keys.name("delayed"), list[Delayed](), 0
        while len(found) < limit and start < max(_LOOK, 10 * limit):
            with self._reading():
                page: Any = self.client.zrange(name, start, start + MAX_BATCH - 1, withscores=True)
            for member, due in page:
                task = read_due(member, int(due))
                if not task.reason and (queues is None or task.queue in queues):
                    found.append(_delayed(task.queue, task.tenant, task.due, task.record))
            if len(page) < MAX_BATCH:
                break
            start += MAX_BATCH
        return found[:limit]

    def _take_out(self, outcome: str, reason: str, items: Sequence[Removal]) -> list[bool]:
        replies: list[bool] = []
        for chunk in chunks(items):
            args = [part for item in chunk for part in item]
            replies += map(bool, self._call("remove", outcome, reason, *self._limits, *args))
        return replies

    def messages(self, keys: Sequence[bytes]) -> list[bytes | None]:
        found: list[bytes | None] = []
        for chunk in chunks(keys):
            (values,) = self._ask([("HMGET", self.keys.name("payload"), *chunk)])
            found += [split_stored(value)[1] for value in values]
        return found

    # -- out of the namespace ------------------------------------------------------------------

    def drain(self, items: Sequence[Removal]) -> list[bool]:
        return self._take_out("drained", "", items)

    def draining(self, count: int) -> list[Drained]:
        found: list[tuple[bytes, bytes]] = []
        for page in self._scan("hscan", self.keys.name("draining")):
            found += page.items()
            if len(found) >= count:
                break
        payloads = self.messages([key for key, _ in found[:count]])
        drained = []
        for (key, raw), payload in zip(found, payloads, strict=False):
            (due,) = _DUE.unpack_from(raw)
            queue, tenant, record = unpack_delayed(raw[_DUE.size :])
            priority = unpack_record(record).priority
            drained.append(Drained(key, queue, tenant, due, priority, payload))
        return drained

    def close_drained(self, keys: Sequence[bytes]) -> int:
        return sum(int(self._call("close_drained", *chunk)) for chunk in chunks(keys))


def _delayed(queue: str, tenant: bytes, due: int, record: bytes) -> Delayed:
    task = unpack_record(record)
    key = record[RECORD.size :]
    try:
        task_id = TaskKey.decode(key).id
    except ValueError:
        task_id = key.decode(errors="replace")
    return Delayed(task_id, queue, tenant, due, task.priority, task.attempts, key)
