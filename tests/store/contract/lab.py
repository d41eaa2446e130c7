"""Two stores under one set of tools: seed exact state, let time pass, look at everything.

``MemoryLab`` reads a view off Python structures, ``RedisLab`` off the keys; what differs between
two runs of the same steps, times and entry ids, is not part of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import redis

from tests.store.contract.view import View, Waiting, split_counters
from tq_celery.settings import Settings
from tq_celery.store.accounts_contract import SERVED
from tq_celery.store.contract import Token
from tq_celery.store.keys import Keys
from tq_celery.store.memory_store import MemoryStore
from tq_celery.store.record import (
    DELIVERY,
    NO_DEADLINE,
    TaskKey,
    unpack_delayed,
    unpack_record,
)
from tq_celery.store.redis_store import RedisStore

__all__ = ["Lab", "MemoryLab", "RedisLab", "wipe"]


class Lab(Protocol):
    """A store and the hands of an experimenter."""

    store: Any

    @property
    def kind(self) -> str:
        """``memory`` or ``server``."""

    def view(self) -> View:
        """Return everything."""

    def tokens(self, queue: str) -> list[Token]:
        """Return the tokens of the queue's deliveries in order of dispatch."""

    def names(self, queue: str) -> list[str]:
        """Return the ids of the queue's deliveries in order of dispatch."""

    def lapse(self, worker: str) -> None:
        """Let the worker's lease have run out."""

    def end_lease(self) -> None:
        """Let the leader's lease have run out."""

    def forget_epochs(self) -> None:
        """Let the server have lost the lease and both counters of epochs."""

    def ripen(self) -> None:
        """Let every delayed task be due, all in one ms."""

    def dead_entries(self) -> list[bytes]:
        """Return the ids of the dead letters in order."""

    def forget_payloads(self) -> None:
        """Let the payloads be gone."""

    def limit_done(self, most: int) -> None:
        """Bound the done memory."""

    def spoil_ingress(self, fields: dict[bytes, bytes]) -> None:
        """Append an entry that is not ours to ingress."""

    def spoil_delayed(self, member: bytes) -> None:
        """Add a member that is not ours, and due, to the delayed set."""


def _nonzero(counts: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    return {name: count for name, count in counts if count}


class MemoryLab:
    """The in-process store."""

    kind = "memory"

    def __init__(self, **seed: Any) -> None:
        self.store = MemoryStore("lab")
        self.store.seed(Settings(**seed))

    def view(self) -> View:
        ns = self.store.ns
        waiting = {
            where: [_waiting(record, rank) for record, rank in tasks]
            for where, tasks in ns.pending.items()
            if tasks
        }
        counters, flows = split_counters((f"{w}:{q}", n) for (w, q), n in ns.counters.items())
        return View(
            counters=counters,
            flows=flows,
            service={t: (s.micros, s.waits, s.shown) for t, s in ns.service.items()},
            live=_nonzero(ns.live_of.items()),
            running=_nonzero(ns.running_of.items()),
            payload=set(ns.payload),
            ingress=[(e.queue, e.tenant, e.record[48:]) for e in ns.ingress.values()],
            delayed=sorted(_delayed(member) for member, _ in ns.delayed),
            pending=waiting,
            heads={
                q: [(tenant, float(key[0])) for tenant, key in heads]
                for q, heads in ns.heads.items()
                if heads
            },
            gated={q: set(tenants) for q, tenants in ns.gated.items() if tenants},
            unranked={w: {r[48:] for r, _ in tasks} for w, tasks in ns.outdated.items() if tasks},
            virtual={g: v for g, v in ns.virtual.items() if v},
            starts={g: dict(starts) for g, starts in ns.starts.items() if starts},
            exec={
                q: [(e.key, e.attempts, e.epoch) for e in entries.values()]
                for q, entries in ns.exec.items()
                if entries
            },
            superseded={q: len(marks) for q, marks in ns.superseded.items() if marks},
            obituary={
                q: [(o.key, o.reason) for o in each.values()]
                for q, each in ns.obituary.items()
                if each
            },
            ids={i: key for i, (key, *_) in ns.ids.items() if not key.startswith(b"0.0.0.")},
            revoked=set(ns.revoked),
            draining=set(ns.draining),
            done=set(ns.done.new) | set(ns.done.old),
            results=[
                (
                    r.key,
                    r.queue,
                    r.tenant,
                    r.settlement.outcome.value,
                    unpack_record(r.record).attempts,
                    r.worker,
                    r.settlement.token.epoch,
                )
                for r in ns.results
            ],
            ends=[
                _end(
                    r.queue,
                    r.tenant,
                    r.settlement.outcome.value,
                    r.settlement.started,
                    r.settlement.finished,
                    r.dispatched,
                    unpack_record(r.record).deadline,
                )
                for r in ns.results
            ],
            delivered=[
                _delivered(r.key, r.entry, r.dispatched, unpack_record(r.record).paid)
                for r in ns.results
            ],
            dead=[(letter.record[48:], letter.reason) for letter in ns.dead.values()],
            fence=ns.fence,
        )

    def tokens(self, queue: str) -> list[Token]:
        return [Token(queue, e, d.epoch) for e, d in self.store.ns.exec[queue].items()]

    def names(self, queue: str) -> list[str]:
        return [TaskKey.decode(each.key).id for each in self.store.ns.exec[queue].values()]

    def lapse(self, worker: str) -> None:
        if worker in self.store.ns.leases:
            self.store.ns.leases[worker] = 0

    def end_lease(self) -> None:
        self.store.ns.leader = None

    def forget_epochs(self) -> None:
        ns = self.store.ns
        ns.leader, ns.epoch, ns.fence = None, 0, 0

    def ripen(self) -> None:
        for member, due in list(self.store.ns.delayed):
            self.store.ns.delayed.add(member, min(due, 1))

    def dead_entries(self) -> list[bytes]:
        return list(self.store.ns.dead)

    def forget_payloads(self) -> None:
        self.store.ns.payload.clear()

    def limit_done(self, most: int) -> None:
        self.store.ns.done_max = most

    def spoil_ingress(self, fields: dict[bytes, bytes]) -> None:
        from tq_celery.store.memory.state import IngressEntry

        ns = self.store.ns
        ns.ingress[ns.entry_id()] = IngressEntry("", b"", b"", fields)

    def spoil_delayed(self, member: bytes) -> None:
        self.store.ns.delayed.add(member, 1)


class RedisLab:
    """The store on a server; views are read with a second client, key by key."""

    kind = "server"

    def __init__(self, store: RedisStore, client: redis.Redis, **seed: Any) -> None:
        self.store, self.keys = store, store.keys
        self.client: Any = client
        settings = Settings(namespace=store.keys.namespace, **seed)
        store.seed(settings)

    def _words(self, word: str) -> dict[str, bytes]:
        """Return the queues (or groups) that have a key of this word, with the keys."""
        start = self.keys.of_queue(word, "").encode()
        found = self.client.scan_iter(match=_glob(start) + b"*", count=1000)
        return {key[len(start) :].decode(): key for key in found}

    def _tenants(self, word: str) -> dict[tuple[str, bytes], list[tuple[bytes, float]]]:
        start = self.keys.of_queue(word, "").encode()
        found = {}
        for key in self.client.scan_iter(match=_glob(start) + b"*", count=1000):
            length, _, rest = key[len(start) :].partition(b":")
            size = int(length)
            where = (rest[:size].decode(), rest[size + 1 :])
            found[where] = self.client.zrange(key, 0, -1, withscores=True)
        return found

    def _hash(self, word: str) -> dict[bytes, bytes]:
        return self.client.hgetall(self.keys.name(word))

    def _stream(self, key: bytes | str) -> list[tuple[bytes, dict[bytes, bytes]]]:
        return self.client.xrange(key)

    def view(self) -> View:
        view, prefix = View(), self.keys
        counted = ((name.decode(), int(n)) for name, n in self._hash("counters").items())
        view.counters, view.flows = split_counters(counted)
        served = {t: SERVED.unpack(raw) for t, raw in self._hash("service").items()}
        view.service = {t: (s[0], s[1], s[4]) for t, s in served.items()}
        view.live = _nonzero((k, int(v)) for k, v in self._hash("live").items())
        view.running = _nonzero((k, int(v)) for k, v in self._hash("running").items())
        view.payload = set(self._hash("payload"))
        for _, fields in self._stream(prefix.name("ingress")):
            if b"d" in fields:
                queue, tenant, record = unpack_delayed(fields[b"d"])
                view.ingress.append((queue, tenant, record[48:]))
            else:
                view.ingress.append(("", b"", b""))
        members = self.client.zrange(prefix.name("delayed"), 0, -1)
        view.delayed = sorted(_delayed(member) for member in members)
        for where, tasks in self._tenants("pending").items():
            view.pending[where] = [_waiting(record, rank) for record, rank in tasks]
        for where, tasks in self._tenants("outdated").items():
            view.unranked[where] = {record[48:] for record, _ in tasks}
        for queue, key in self._words("gated").items():
            view.gated[queue] = self.client.smembers(key)
        for queue, key in self._words("heads").items():
            heads = self.client.zrange(key, 0, -1, withscores=True)
            # A tenant that reached its cap is found out, and gated, when its turn comes.
            gated = view.gated.get(queue, set())
            seen = [(member[12:], score) for member, score in heads if member[12:] not in gated]
            if seen:
                view.heads[queue] = seen
        view.virtual = {k.decode(): float(v) for k, v in self._hash("virtual").items() if float(v)}
        for group, key in self._words("starts").items():
            view.starts[group] = {t: float(v) for t, v in self.client.hgetall(key).items()}
        for queue, key in self._words("exec").items():
            entries = []
            for _, fields in self._stream(key):
                epoch, attempts = DELIVERY.unpack_from(fields[b"d"])
                entries.append((fields[b"d"][DELIVERY.size :], attempts, epoch))
            if entries:
                view.exec[queue] = entries
            assert self.client.hlen(prefix.of_queue("running", queue)) == len(entries)
        for queue, key in self._words("superseded").items():
            view.superseded[queue] = self.client.hlen(key)
        for queue, key in self._words("obituary").items():
            each = [(f[b"k"], f[b"r"].decode()) for _, f in self._stream(key)]
            if each:
                view.obituary[queue] = each
        view.ids = {task_id.decode(): key for task_id, key in self._hash("ids").items()}
        view.revoked = {mark.decode() for mark in self.client.zrange(prefix.name("revoked"), 0, -1)}
        view.draining = set(self._hash("draining"))
        view.done = set(self._hash("done:new")) | set(self._hash("done:old"))
        records = [fields for _, fields in self._stream(prefix.name("results"))]
        view.results = [_result(fields) for fields in records]
        view.ends = [
            _end(
                f[b"queue"].decode(), f[b"tenant"], f[b"outcome"].decode(), float(f[b"started"]),
                float(f[b"finished"]), int(f[b"dispatched"]), int(f[b"deadline"]),
            )
            for f in records
        ]  # fmt: skip
        view.delivered = [
            _delivered(_key(f), f[b"entry"], int(f[b"dispatched"]), int(f[b"redelivered"]))
            for f in records
        ]
        view.dead = [
            (fields.get(b"key", b""), fields[b"reason"].decode())
            for _, fields in self._stream(prefix.name("dead"))
        ]
        view.fence = int(self.client.get(prefix.name("fence")) or 0)
        return view

    def tokens(self, queue: str) -> list[Token]:
        entries = self._stream(self.keys.of_queue("exec", queue))
        return [Token(queue, e, DELIVERY.unpack_from(f[b"d"])[0]) for e, f in entries]

    def names(self, queue: str) -> list[str]:
        entries = self._stream(self.keys.of_queue("exec", queue))
        return [TaskKey.decode(f[b"d"][DELIVERY.size :]).id for _, f in entries]

    def lapse(self, worker: str) -> None:
        self.client.zadd(self.keys.name("workers"), {worker: 1}, xx=True)

    def end_lease(self) -> None:
        self.client.delete(self.keys.name("leader"))

    def forget_epochs(self) -> None:
        self.client.delete(*map(self.keys.name, ("leader", "leadership", "epoch", "fence")))

    def ripen(self) -> None:
        key = self.keys.name("delayed")
        members = self.client.zrange(key, 0, -1)
        for start in range(0, len(members), 1_000):
            self.client.zadd(key, dict.fromkeys(members[start : start + 1_000], 1), xx=True)

    def dead_entries(self) -> list[bytes]:
        return [entry for entry, _ in self._stream(self.keys.name("dead"))]

    def forget_payloads(self) -> None:
        self.client.delete(self.keys.name("payload"))

    def limit_done(self, most: int) -> None:
        self.store._limits[2] = most

    def spoil_ingress(self, fields: dict[bytes, bytes]) -> None:
        self.client.xadd(self.keys.name("ingress"), fields)

    def spoil_delayed(self, member: bytes) -> None:
        self.client.zadd(self.keys.name("delayed"), {member: 1})


def wipe(client: redis.Redis, keys: Keys) -> None:
    """Delete a namespace."""
    found = list(client.scan_iter(match=_glob(keys.prefix.encode()) + b"*", count=1000))
    if found:
        client.delete(*found)


def _glob(raw: bytes) -> bytes:
    return raw.replace(b"[", b"\\[")


def _waiting(record: bytes, rank: float) -> Waiting:
    task = unpack_record(record)
    return task.key, float(rank), task.attempts, task.paid


def _delayed(member: bytes) -> tuple[str, bytes, bytes, int, int]:
    queue, tenant, record = unpack_delayed(member)
    task = unpack_record(record)
    return queue, tenant, task.key, task.attempts, task.paid


def _key(f: dict[bytes, bytes]) -> bytes:
    return b".".join((f[b"nesting"], f[b"retries"], f[b"generation"], f[b"id"]))


def _delivered(
    key: bytes, entry: bytes, dispatched: int, paid: int
) -> tuple[bytes, int | None, bool]:
    since = int(entry.partition(b"-")[0]) - dispatched if entry else None
    return key, since, bool(paid)


def _result(f: dict[bytes, bytes]) -> tuple[Any, ...]:
    return (
        _key(f),
        f[b"queue"].decode(),
        f[b"tenant"],
        f[b"outcome"].decode(),
        int(f[b"attempts"]),
        f[b"worker"].decode(),
        int(f[b"epoch"]),
    )


def _end(
    queue: str, tenant: bytes, outcome: str, started: float, finished: float, dispatched: int,
    deadline: int,
) -> tuple[str, bytes, str, int, bool, bool | None]:  # fmt: skip
    """Return what is known of an end; an end before the start, or without one, was no service."""
    ran = max(0, round((finished - started) * 1000)) if started > 0 else 0
    late = finished > deadline if deadline < NO_DEADLINE else None
    return queue, tenant, outcome, ran, dispatched > 0, late
