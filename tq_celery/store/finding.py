"""Looking through everything that waits: read-only and in bounded batches.

Tasks move while one looks, always in one direction: delayed, ingress, pending, exec. The places
are looked at in that order, so what moves on is met again further down. What comes back, such as a
delivery that was given back, may be missed; who must not miss anything marks ids first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis

from tq_celery.errors import StoreError
from tq_celery.store.base import RedisPart, chunks
from tq_celery.store.contract import MAX_BATCH
from tq_celery.store.keys import GROUP, quoted
from tq_celery.store.record import RECORD, RUN, unpack_delayed
from tq_celery.store.stopping_contract import Found, Removal, Where

__all__ = ["Batches", "RedisFinding", "read_members"]

Batches = Iterator[list[Found]]


class RedisFinding(RedisPart):
    """Yields what waits, place by place."""

    def find_delayed(self, wanted: Callable[[str, bytes], bool]) -> Batches:
        """Yield delayed tasks; members that cannot be read are the leader's to bury."""
        for members in self._scan("zscan", self.keys.name("delayed")):
            found = read_members("delayed", [(member, member) for member in members])
            yield [each for each in found if wanted(each.item.queue, each.item.tenant)]

    def find_ingress(self, wanted: Callable[[str, bytes], bool]) -> Batches:
        """Yield submitted tasks, as far as there were any when the search began."""
        name = self.keys.name("ingress")
        with self._reading():
            last: Any = self.client.xrevrange(name, count=1)
        start = "-"
        while last:
            with self._reading():
                entries: Any = self.client.xrange(name, start, last[0][0], count=MAX_BATCH)
            found = read_members("ingress", [(e, fields.get(b"d", b"")) for e, fields in entries])
            yield [each for each in found if wanted(each.item.queue, each.item.tenant)]
            if len(entries) < MAX_BATCH:
                return
            start = f"({entries[-1][0].decode()}"

    def find_pending(self, queue: str, tenant: bytes, key: bytes | None = None) -> Batches:
        """Yield a tenant's pending tasks; the server looks for ``key`` alone when it is given."""
        match = None if key is None else b"*" + quoted(key)
        for word in ("pending", "outdated"):
            name = self.keys.of_tenant(word, queue, tenant)
            for members in self._scan("zscan", name, match):
                yield [
                    Found(Removal("pending", queue, tenant, member), member[RECORD.size :])
                    for member in members
                ]

    def find_exec(self, queue: str, wanted: Callable[[str, bytes], bool]) -> Batches:
        """Yield a queue's deliveries; only a script can tell which of them nobody has read."""
        for records in self._scan("hscan", self.keys.of_queue("running", queue)):
            found = []
            for entry, raw in records.items():
                try:
                    size = RUN.unpack_from(raw)[3]
                except struct.error:
                    continue
                tenant, record = raw[RUN.size : RUN.size + size], raw[RUN.size + size :]
                if wanted(queue, tenant):
                    item = Removal("exec", queue, tenant, entry)
                    found.append(Found(item, record[RECORD.size :]))
            yield found

    def waiting(
        self,
        queues: Sequence[str] | None = None,
        *,
        tenant: bytes | None = None,
        exec_too: bool = True,
    ) -> Batches:
        """See :meth:`~tq_celery.store.stopping_contract.StoppingStore.waiting`."""
        names = self.queues_known() if queues is None else list(queues)
        chosen = None if queues is None else frozenset(names)

        def wanted(queue: str, of: bytes) -> bool:
            return (chosen is None or queue in chosen) and tenant in (None, of)

        yield from self.find_delayed(wanted)
        yield from self.find_ingress(wanted)
        for queue in names:
            for tenants in [[tenant]] if tenant is not None else self._tenants():
                for each in self._with_pending(queue, tenants):
                    yield from self.find_pending(queue, each)
        if exec_too:
            for queue in names:
                read = self._read_entries(queue)
                for batch in self.find_exec(queue, wanted):
                    yield [found for found in batch if found.item.member not in read]

    def _read_entries(self, queue: str) -> set[bytes]:
        """Return the exec entries that workers hold: no more than their slots and read-ahead."""
        entries: set[bytes] = set()
        name, start = self.keys.of_queue("exec", queue), "-"
        while True:
            try:
                with self._reading():
                    page: Any = self.client.xpending_range(name, GROUP, start, "+", MAX_BATCH)
            except StoreError as error:
                if "NOGROUP" in str(error):
                    return entries
                raise
            entries |= {each["message_id"] for each in page}
            if len(page) < MAX_BATCH:
                return entries
            start = f"({page[-1]['message_id'].decode()}"

    def queues_known(self) -> list[str]:
        """Return the queues that ever took a task."""
        with self._reading():
            names: Any = self.client.smembers(self.keys.name("queues"))
        return sorted(name.decode() for name in names)

    def _tenants(self) -> Iterator[list[bytes]]:
        for live in self._scan("hscan", self.keys.name("live")):
            yield list(live)

    def _with_pending(self, queue: str, tenants: Sequence[bytes]) -> list[bytes]:
        """Return those of the tenants that have pending tasks in the queue."""
        found = []
        for chunk in chunks(tenants):
            commands = [
                ("EXISTS", self.keys.of_tenant("pending", queue, tenant),
                 self.keys.of_tenant("outdated", queue, tenant))
                for tenant in chunk
            ]  # fmt: skip
            found += [t for t, there in zip(chunk, self._ask(commands), strict=True) if there]
        return found

    def _ask(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run reading commands in one round trip."""
        pipe: Any = self.client.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        with self._reading():
            replies: list[Any] = pipe.execute()
        return replies

    def _scan(self, command: str, name: Any, match: bytes | None = None) -> Iterator[Any]:
        """Yield the pages of a set or hash; whatever stays in it all the while is met."""
        scan: Any = getattr(self.client, command)
        cursor = 0
        while True:
            with self._reading():
                cursor, page = scan(name, cursor, match=match, count=MAX_BATCH)
            yield [member for member, _ in page] if command == "zscan" else page
            if not cursor:
                return

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (redis.RedisError, OSError) as error:
            raise self._wrap("remove", error) from error


def read_members(where: Where, members: Sequence[tuple[bytes, bytes]]) -> list[Found]:
    """Return the tasks of (name, bytes) pairs of ``delayed`` or ``ingress``, and no other bytes."""
    found = []
    for name, raw in members:
        try:
            queue, tenant, record = unpack_delayed(raw)
        except (struct.error, ValueError):
            continue
        if queue and len(record) > RECORD.size:
            found.append(Found(Removal(where, queue, tenant, name), record[RECORD.size :]))
    return found
