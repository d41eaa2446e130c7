"""Stopping tasks: marks, removal by exact member, purging, listing and draining."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tq_celery.states import Outcome
from tq_celery.store.contract import Settlement, Token
from tq_celery.store.due import read_due
from tq_celery.store.memory.base import Base
from tq_celery.store.memory.state import Run
from tq_celery.store.record import RECORD, TaskKey, unpack_delayed, unpack_record
from tq_celery.store.stamps import stamps_of
from tq_celery.store.stopping_contract import (
    MARK_EXPIRES,
    MAX_MARKS,
    Delayed,
    Drained,
    Found,
    Located,
    Removal,
)

__all__ = ["Stop"]


class Stop(Base):
    """What an operator or a producer does to stop tasks."""

    def locate(self, ids: Sequence[str]) -> dict[str, Located]:
        """Return where the tasks are; an id belongs to its newest live key, else to its first."""
        found: dict[str, Located] = {}
        for each in ids:
            key = self.ns.ids.get(each, (TaskKey(each).encode(),))[0]
            for batch in self._places(exec_too=True):
                for item, of in batch:
                    if of == key:
                        found[each] = Located(TaskKey.decode(key), item.queue, item.tenant, 0)
        return found

    def revoke(
        self, ids: Sequence[str], *, reason: str = "revoked", expires: int = MARK_EXPIRES
    ) -> dict[str, str]:
        """Mark, then remove what waits."""
        self._mark(self.ns.revoked, ids, expires)
        wanted = {place.key.encode(): each for each, place in self.locate(ids).items()}
        result = dict.fromkeys(wanted.values(), "dispatched")
        for batch in list(self.waiting()):
            for found in batch:
                if found.key in wanted and self.remove([found.item], reason=reason) == [True]:
                    result[wanted[found.key]] = "revoked"
        return {each: result.get(each, "unknown") for each in ids}

    def revoke_stamped(
        self,
        stamps: Mapping[str, Sequence[str]],
        *,
        reason: str = "revoked",
        expires: int = MARK_EXPIRES,
    ) -> int:
        """Mark values of stamped headers, then remove what waits with one."""
        marked = [(header, value) for header in stamps for value in stamps[header]]
        self._mark(self.ns.revoked_stamps, marked, expires)
        hits = [
            found.item
            for batch in self.waiting()
            for found in batch
            if any(each in marked for each in stamps_of(self.ns.payload[found.key][1]))
        ]
        return sum(self.remove(hits, reason=reason))

    def purge(
        self,
        queues: Sequence[str] | None = None,
        *,
        tenant: bytes | None = None,
        reason: str = "purged",
    ) -> int:
        """Remove what waits."""
        batches = list(self.waiting(queues, tenant=tenant))
        return sum(sum(self.remove([f.item for f in batch], reason=reason)) for batch in batches)

    def remove(self, items: Sequence[Removal], *, reason: str = "revoked") -> list[bool]:
        """Take tasks out of every structure, each with an obituary."""
        return self._take_out(items, Outcome.REVOKED, reason)

    def messages(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the stored messages."""
        return [self.ns.payload.get(key, (b"", None))[1] for key in keys]

    def drain(self, items: Sequence[Removal]) -> list[bool]:
        """Take tasks out of every structure, to be published elsewhere."""
        return self._take_out(items, Outcome.DRAINED, "")

    def draining(self, count: int) -> list[Drained]:
        """Return drained tasks that are not known to be published."""
        return list(self.ns.draining.values())[:count]

    def close_drained(self, keys: Sequence[bytes]) -> int:
        """Forget published tasks and their payloads."""
        closed = 0
        for key in keys:
            if self.ns.draining.pop(key, None) is not None:
                self.ns.payload.pop(key, None)
                closed += 1
        return closed

    def delayed(self, queues: Sequence[str] | None = None, limit: int = 100) -> list[Delayed]:
        """Return delayed tasks, soonest first."""
        found = []
        for member, due in self.ns.delayed:
            each = read_due(member, due)
            if not each.reason and (queues is None or each.queue in queues):
                task = unpack_record(each.record)
                task_id = TaskKey.decode(task.key).id
                found.append(
                    Delayed(
                        task_id,
                        each.queue,
                        each.tenant,
                        due,
                        task.priority,
                        task.attempts,
                        task.key,
                    )
                )
        return found[:limit]

    def waiting(
        self,
        queues: Sequence[str] | None = None,
        *,
        tenant: bytes | None = None,
        exec_too: bool = True,
    ) -> Iterator[list[Found]]:
        """Yield what waits, place by place."""
        for batch in list(self._places(exec_too)):
            yield [
                found
                for found in batch
                if (queues is None or found.item.queue in queues)
                and tenant in (None, found.item.tenant)
                and not self._is_read(found.item)
            ]

    def _is_read(self, item: Removal) -> bool:
        """Tell whether a worker has it, and decides."""
        return item.where == "exec" and self.ns.exec[item.queue][item.member].worker is not None

    def _places(self, exec_too: bool) -> Iterator[list[Found]]:
        ns = self.ns
        parsed = [(member, read_due(member, due)) for member, due in ns.delayed]
        yield [
            Found(Removal("delayed", each.queue, each.tenant, member), each.record[RECORD.size :])
            for member, each in parsed
            if not each.reason
        ]
        yield [
            Found(Removal("ingress", each.queue, each.tenant, entry), each.record[RECORD.size :])
            for entry, each in ns.ingress.items()
            if not each.fields
        ]
        for structure in (ns.pending, ns.outdated):
            for (queue, tenant), tasks in structure.items():
                yield [
                    Found(Removal("pending", queue, tenant, record), record[RECORD.size :])
                    for record, _ in tasks
                ]
        for queue, runs in ns.running.items() if exec_too else ():
            yield [
                Found(Removal("exec", queue, run.tenant, entry), run.record[RECORD.size :])
                for entry, run in runs.items()
            ]

    def _mark(self, marks: dict[Any, int], names: Sequence[Any], expires: int) -> None:
        until = self.ns.now + expires
        for name in names:
            marks[name] = max(until, marks.get(name, 0))
        for name in [name for name, end in marks.items() if end <= self.ns.now]:
            del marks[name]
        for name in sorted(marks, key=lambda name: marks[name])[: max(0, len(marks) - MAX_MARKS)]:
            del marks[name]

    def _take_out(self, items: Sequence[Removal], outcome: Outcome, reason: str) -> list[bool]:
        firsts: dict[tuple[str, bytes], bytes | None] = {}
        replies = []
        freed: set[bytes] = set()
        for item in items:
            taken = self._take(item, firsts, freed)
            replies.append(taken is not None)
            if taken is None:
                continue
            record, epoch, due, dispatched = taken
            entry = item.member if item.where == "exec" else b""
            if outcome is Outcome.REVOKED:
                self._end_outside(
                    item.queue, item.tenant, record, outcome, reason, epoch, dispatched, entry
                )
                continue
            task = unpack_record(record)
            digest, payload = self.ns.payload.get(task.key, (b"", None))
            token = Token(item.queue, entry, epoch)
            run = Run(epoch, 0, item.tenant, 0.0, record, dispatched)
            self._settle(run, Settlement(token, outcome, digest, 0, self.ns.now), "")
            self.ns.draining[task.key] = Drained(
                task.key, item.queue, item.tenant, due, task.priority, payload
            )
        for (queue, tenant), old in firsts.items():
            self.index.renew(queue, tenant, old)
        for tenant in freed:
            self.index.release(tenant)
        if freed:
            self._credit()
        return replies

    def _take(
        self, item: Removal, firsts: dict[tuple[str, bytes], bytes | None], freed: set[bytes]
    ) -> tuple[bytes, int, int, int] | None:
        """Take one member out; returns its record, the epoch of its delivery, when it is due and
        when it was dispatched.
        """
        ns, queue, where = self.ns, item.queue, (item.queue, item.tenant)
        if item.where == "ingress":
            entry = ns.ingress.pop(item.member, None)
            if entry is None:
                return None
            ns.count("submitted", queue, -1)
            return entry.record, 0, 0, 0
        if item.where == "delayed":
            due = ns.delayed.get(item.member)
            if due is None:
                return None
            ns.delayed.remove(item.member)
            ns.count("delayed", queue, -1)
            return unpack_delayed(item.member)[2], 0, due, 0
        if item.where == "exec":
            run = ns.running[queue].get(item.member)
            if run is None or ns.exec[queue][item.member].worker is not None:
                return None
            self._close(Token(queue, item.member, run.epoch), run)
            freed.add(item.tenant)
            return run.record, run.epoch, 0, run.dispatched
        pending = ns.pending.get(where)
        first = pending.first() if pending is not None else None
        firsts.setdefault(where, first[0] if first is not None else None)
        for structure in (ns.pending, ns.outdated):
            tasks = structure.get(where)
            if tasks is not None and tasks.remove(item.member):
                if not tasks:
                    del structure[where]
                ns.count("pending", queue, -1)
                return item.member, 0, 0, 0
        return None
