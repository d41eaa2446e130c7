"""The leader's accounts on a server; see :mod:`~tq_celery.store.accounts_contract`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tq_celery.store.accounts_contract import (
    MOST_READ,
    MOST_SERVED,
    SERVED,
    Accounts,
    Change,
    Served,
)
from tq_celery.store.announcement import parse_announcement
from tq_celery.store.base import RedisPart
from tq_celery.store.contract import WorkerAnnouncement
from tq_celery.store.inspect import ask
from tq_celery.store.keys import GROUP

__all__ = ["RedisAccounts", "slots_of", "unpack_served"]


class RedisAccounts(RedisPart):
    """Implements :class:`~tq_celery.store.accounts_contract.AccountsStore`."""

    def accounts(self) -> Accounts:
        name = self.keys.name
        time, leases, offers, queues, records, weights, caps, paused = ask(
            self.client,
            "account",
            [
                ("TIME",),
                ("ZRANGE", name("workers"), 0, MOST_SERVED - 1, "WITHSCORES"),
                ("HGETALL", name("announcements")),
                ("SMEMBERS", name("queues")),
                ("HGETALL", name("service")),
                ("HSCAN", name("weights"), 0, "COUNT", MOST_READ),
                ("HSCAN", name("caps"), 0, "COUNT", MOST_READ),
                ("SSCAN", name("paused_tenants"), 0, "COUNT", MOST_READ),
            ],
        )
        now = int(time[0]) * 1000 + int(time[1]) // 1000
        workers = [
            parse_announcement(raw.decode(errors="replace"), offers.get(raw), int(float(expires)))
            for raw, expires in zip(leases[::2], leases[1::2], strict=True)
        ]
        served = unpack_served(records)
        slots, busy = slots_of(workers, self._holding(queues), now)
        configured = {*weights[1], *caps[1], *paused[1]}
        return Accounts(now, slots, busy, served, self._live(list(served)), configured)

    def account(
        self, epoch: int, slots: int, busy: int, longest: int, changes: Mapping[bytes, Change]
    ) -> int:
        args = [part for change in changes.items() for part in change]
        return int(self._fenced_call("account", epoch, slots, busy, longest, *args))

    def _holding(self, queues: Iterable[bytes]) -> dict[str, int]:
        """Return the deliveries in the hands of each worker."""
        names = [self.keys.of_queue("exec", queue.decode()) for queue in queues]
        found: dict[str, int] = {}
        for pel in ask(self.client, "account", [("XPENDING", each, GROUP) for each in names]):
            for consumer in pel["consumers"] if pel else ():
                worker = consumer["name"].decode(errors="replace")
                found[worker] = found.get(worker, 0) + int(consumer["pending"])
        return found

    def _live(self, tenants: list[bytes]) -> set[bytes]:
        if not tenants:
            return set()
        (counts,) = ask(self.client, "account", [("HMGET", self.keys.name("live"), *tenants)])
        return {tenant for tenant, count in zip(tenants, counts, strict=True) if count}


def unpack_served(records: Mapping[bytes, bytes | None]) -> dict[bytes, Served]:
    """Return the records of the ``service`` hash, without what is none."""
    return {
        tenant: Served(*SERVED.unpack(raw))
        for tenant, raw in records.items()
        if raw is not None and len(raw) == SERVED.size
    }


def slots_of(
    workers: Iterable[WorkerAnnouncement], holding: Mapping[str, int], now: int
) -> tuple[int, int]:
    """Return the slots of the workers that are alive, and how many of them have a delivery."""
    alive = [worker for worker in workers if worker.expires > now]
    busy = sum(min(each.slots, holding.get(each.worker, 0)) for each in alive)
    return sum(each.slots for each in alive), busy
