"""Read-only views of a namespace for operators.

Everything is read from the server, so the answer is right even when a scheduler or a worker is
wedged. Reads are bounded: hashes are scanned, sets and streams are read by ranges, and the tenants
looked at are capped at :data:`MAX_TENANTS`. A view made of several reads is not a snapshot.
Errors of the server are raised as :class:`~tq_celery.errors.StoreError`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import redis
from redis import exceptions

from tq_celery.errors import StoreError, StoreUnavailableError
from tq_celery.states import Outcome
from tq_celery.store.announcement import parse_announcement
from tq_celery.store.client import AWAY
from tq_celery.store.keys import GROUP, Keys
from tq_celery.store.scripts import refused, said
from tq_celery.store.views import (
    DeadLetter,
    LeaderView,
    Overview,
    QueueView,
    ResultView,
    TenantView,
    WorkerView,
)

__all__ = ["CHUNK", "MAX_TENANTS", "Inspector", "ask", "reading"]

#: Most tenants one view looks at.
MAX_TENANTS = 10_000
#: Commands per pipeline and fields per scan step.
CHUNK = 500

#: Counters of live tasks; what a worker holds is still counted as dispatched.
_LIVE = ("submitted", "delayed", "pending", "dispatched")
_TOTALS = ("accepted", *(str(outcome) for outcome in Outcome))
_DEAD_FIELDS = {"key", "queue", "tenant", "reason", "attempts", "token", "outcome", "at", "payload"}


@contextmanager
def reading(operation: str) -> Iterator[None]:
    """Raise the library's errors for the client's, naming ``operation``."""
    try:
        yield
    except (exceptions.RedisError, OSError) as error:
        kind = StoreUnavailableError if isinstance(error, AWAY) else StoreError
        raise refused(operation, error) or kind(operation, said(error)) from error


def ask(client: Any, operation: str, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Run commands in one round trip; a consumer group that is not there answers ``None``."""
    pipe = client.pipeline(transaction=False)
    for command in commands:
        pipe.execute_command(*command)
    with reading(operation):
        replies = pipe.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, Exception) and "NOGROUP" not in str(reply):
                raise reply
    return [None if isinstance(reply, Exception) else reply for reply in replies]


class Inspector:
    """Views of one namespace; see the module about bounds."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self.client: Any = client
        self.keys = keys

    def now(self) -> int:
        """Return the server's clock in ms."""
        with reading("time"):
            seconds, micros = self.client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def config(self) -> dict[str, str]:
        """Return the stored configuration; empty before a scheduler has seeded it."""
        with reading("config"):
            return _text(self.client.hgetall(self.keys.name("config")))

    def leader(self) -> LeaderView:
        """Return who leads, under which epoch, and for how long still."""
        name = self.keys.name
        owner, left, epoch, fence, standbys, (seconds, _) = self._ask(
            "leader",
            [
                ("GET", name("leader")),
                ("PTTL", name("leader")),
                ("GET", name("epoch")),
                ("GET", name("fence")),
                ("ZRANGE", name("standbys"), 0, MAX_TENANTS, "WITHSCORES"),
                ("TIME",),
            ],
        )
        there = zip(standbys[::2], standbys[1::2], strict=True)
        return LeaderView(
            owner.decode(errors="replace") if owner else None,
            int(epoch or 0),
            int(fence or 0),
            max(-1, int(left)) if owner else 0,
            tuple(who.decode(errors="replace") for who, ms in there if float(ms) > seconds * 1000),
        )

    def queue_names(self) -> list[str]:
        """Return the queues that ever took a task or that a live worker serves, sorted."""
        with reading("queues"):
            names = {raw.decode() for raw in self.client.smembers(self.keys.name("queues"))}
        return sorted(names)

    def counters(self) -> dict[str, int]:
        """Return all conservation counters, ``<word>:<queue>`` to count."""
        with reading("counters"):
            raw = self.client.hgetall(self.keys.name("counters"))
        return {field.decode(): int(count) for field, count in raw.items()}

    def queues(self, workers: list[WorkerView] | None = None) -> list[QueueView]:
        """Return every queue that ever took a task or that a worker (of those given) serves."""
        return self._queues(self.workers() if workers is None else workers)

    def workers(self) -> list[WorkerView]:
        """Return the announced workers, the lapsed ones included."""
        name = self.keys.name
        with reading("workers"):
            leases = self.client.zrange(name("workers"), 0, MAX_TENANTS, withscores=True)
            announced = self.client.hgetall(name("announcements"))
        now, holding = self.now(), self._holding()
        return [
            _worker(worker, expires - now, announced.get(worker), holding[worker])
            for worker, expires in leases
        ]

    def tenants(self, limit: int = MAX_TENANTS) -> tuple[list[TenantView], bool]:
        """Return up to ``limit`` tenants with live tasks or settings, and whether more exist."""
        found: dict[bytes, None] = {}
        partial = False
        for word in ("live", "weights", "caps", "paused_tenants"):
            for tenant in self.scan(word):
                if len(found) >= limit and tenant not in found:
                    partial = True
                    break
                found[tenant] = None
        return self.describe(list(found)), partial

    def describe(self, tenants: list[bytes]) -> list[TenantView]:
        """Return the views of the given tenants, known or not, in the same order."""
        name = self.keys.name
        busy = [word for word in self._waiting() if word]
        views: list[TenantView] = []
        for start in range(0, len(tenants), CHUNK):
            part = tenants[start : start + CHUNK]
            hashes = [
                self._ask(word, [("HMGET", name(word), *part)])[0]
                for word in ("weights", "caps", "live", "running")
            ]
            paused = self._ask("paused", [("SMISMEMBER", name("paused_tenants"), *part)])[0]
            pending = self._pending(part, busy)
            for tenant, weight, cap, live, running, held in zip(part, *hashes, paused, strict=True):
                views.append(
                    TenantView(
                        tenant,
                        float(weight) if weight else 1.0,
                        int(cap) if cap else None,
                        bool(held),
                        int(live or 0),
                        int(running or 0),
                        pending[tenant],
                    )
                )
        return views

    def known(self, tenant: bytes) -> bool:
        """Tell whether the tenant has live tasks or settings, or had tasks of late."""
        name = self.keys.name
        asked = [
            *(("HEXISTS", name(w), tenant) for w in ("live", "weights", "caps", "service")),
            ("SISMEMBER", name("paused_tenants"), tenant),
        ]
        return any(self._ask("tenant", asked))

    def dead_count(self) -> int:
        """Return how many dead letters there are."""
        with reading("dead"):
            return int(self.client.xlen(self.keys.name("dead")))

    def dead(self, count: int, after: str = "-", newest: bool = False) -> list[DeadLetter]:
        """Return up to ``count`` dead letters from entry ``after`` on, or the newest ones."""
        name = self.keys.name("dead")
        with reading("dead"):
            if newest:
                entries = self.client.xrevrange(name, count=count)
            else:
                entries = self.client.xrange(name, min=after, count=count)
        return [_dead_letter(entry, fields) for entry, fields in entries]

    def dead_letter(self, entry: str) -> DeadLetter | None:
        """Return one dead letter, ``None`` when there is no such entry."""
        with reading("dead"):
            found = self.client.xrange(self.keys.name("dead"), min=entry, max=entry, count=1)
        return _dead_letter(*found[0]) if found else None

    def results(self, count: int) -> list[ResultView]:
        """Return the last ``count`` settled tasks, newest first."""
        with reading("results"):
            entries = self.client.xrevrange(self.keys.name("results"), count=count)
        return [
            ResultView(entry.decode(), {field.decode(): value for field, value in fields.items()})
            for entry, fields in entries
        ]

    def overview(self, limit: int = MAX_TENANTS) -> Overview:
        """Return the whole namespace at one look, with up to ``limit`` tenants."""
        name = self.keys.name
        submitted, first, delayed, due, dead, starved, draining = self._ask(
            "overview",
            [
                ("XLEN", name("ingress")),
                ("XRANGE", name("ingress"), "-", "+", "COUNT", 1),
                ("ZCARD", name("delayed")),
                ("ZRANGE", name("delayed"), 0, 0, "WITHSCORES"),
                ("XLEN", name("dead")),
                ("EXISTS", name("starved")),
                ("HLEN", name("draining")),
            ],
        )
        workers = self.workers()
        tenants, partial = self.tenants(limit)
        return Overview(
            namespace=self.keys.namespace,
            now=self.now(),
            config=self.config(),
            leader=self.leader(),
            submitted=int(submitted),
            oldest=int(first[0][0].split(b"-")[0]) if first else 0,
            delayed=int(delayed),
            next_due=int(float(due[1])) if due else 0,
            dead=int(dead),
            starved=bool(starved),
            queues=self._queues(workers),
            tenants=tenants,
            workers=workers,
            partial=partial,
            draining=int(draining),
        )

    def _ask(self, operation: str, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
        return ask(self.client, operation, commands)

    def scan(self, word: str) -> Iterator[bytes]:
        """Yield the fields of a hash of tenants, or the members of ``paused_tenants``."""
        scan = self.client.sscan if word == "paused_tenants" else self.client.hscan
        cursor = 0
        while True:
            with reading(word):
                cursor, found = scan(self.keys.name(word), cursor, count=CHUNK)
            yield from found
            if not cursor:
                return

    def _waiting(self) -> list[str]:
        """Queues that have pending tasks."""
        prefix = "pending:"
        return [
            field[len(prefix) :]
            for field, count in self.counters().items()
            if field.startswith(prefix) and count > 0
        ]

    def _pending(self, tenants: list[bytes], queues: list[str]) -> dict[bytes, dict[str, int]]:
        pending: dict[bytes, dict[str, int]] = {tenant: {} for tenant in tenants}
        for queue in queues:
            # During a policy switch a tenant has tasks in both.
            for word in ("pending", "outdated"):
                names = [self.keys.of_tenant(word, queue, tenant) for tenant in tenants]
                counts = self._ask(word, [("ZCARD", name) for name in names])
                for tenant, count in zip(tenants, counts, strict=True):
                    if count:
                        pending[tenant][queue] = pending[tenant].get(queue, 0) + count
        return pending

    def _holding(self) -> Counter[bytes]:
        """Deliveries in the hands of each worker, over all queues."""
        holding: Counter[bytes] = Counter()
        for summary in self._pels(self.queue_names()):
            for consumer in summary["consumers"] if summary else ():
                holding[consumer["name"]] += int(consumer["pending"])
        return holding

    def _pels(self, queues: list[str]) -> list[Any]:
        of_queue = self.keys.of_queue
        return self._ask("running", [("XPENDING", of_queue("exec", q), GROUP) for q in queues])

    def _queues(self, workers: list[WorkerView]) -> list[QueueView]:
        names = sorted({*self.queue_names(), *(q for w in workers for q in w.queues)})
        counters = self.counters()
        with reading("queues"):
            paused = {raw.decode() for raw in self.client.smembers(self.keys.name("paused_queues"))}
        pels = self._pels(names)
        sizes = [self._sizes(queue) for queue in names]
        views = []
        for queue, pel, (heads, gated, stale, rerank, obituaries) in zip(
            names, pels, sizes, strict=True
        ):
            serving = [w for w in workers if queue in w.queues and w.remaining > 0]
            running = int(pel["pending"]) if pel else 0
            states = {word: counters.get(f"{word}:{queue}", 0) for word in _LIVE}
            totals = {word: counters.get(f"{word}:{queue}", 0) for word in _TOTALS}
            settled = sum(totals.values()) - totals["accepted"]
            views.append(
                QueueView(
                    queue=queue,
                    paused=queue in paused,
                    submitted=states["submitted"],
                    delayed=states["delayed"],
                    pending=states["pending"],
                    dispatched=max(0, states["dispatched"] - running),
                    running=running,
                    tenants=heads,
                    gated=gated,
                    unranked=stale + rerank,
                    obituaries=obituaries,
                    workers=len(serving),
                    slots=sum(w.slots for w in serving),
                    missing=totals["accepted"] - settled - sum(states.values()),
                    totals=totals,
                )
            )
        return views

    def _sizes(self, queue: str) -> list[int]:
        of_queue = self.keys.of_queue
        return self._ask(
            "queue",
            [
                ("ZCARD", of_queue("heads", queue)),
                ("SCARD", of_queue("gated", queue)),
                ("ZCARD", of_queue("stale", queue)),
                ("SCARD", of_queue("rerank", queue)),
                ("XLEN", of_queue("obituary", queue)),
            ],
        )


def _text(raw: Mapping[bytes, bytes]) -> dict[str, str]:
    return {key.decode(): value.decode(errors="replace") for key, value in raw.items()}


def _worker(worker: bytes, remaining: float, announced: bytes | None, holding: int) -> WorkerView:
    offer = parse_announcement(worker.decode(errors="replace"), announced, 0)
    return WorkerView(
        worker=offer.worker,
        host=offer.host,
        pid=offer.pid,
        pool=offer.pool,
        queues=offer.queues,
        slots=offer.slots,
        ahead=offer.ahead,
        holding=holding,
        remaining=int(remaining),
    )


def _dead_letter(entry: bytes, fields: Mapping[bytes, bytes]) -> DeadLetter:
    """Decode a dead letter, whatever is missing or malformed in it."""
    named = {key.decode(errors="replace"): value for key, value in fields.items()}

    def text(field: str) -> str:
        return named.get(field, b"").decode(errors="replace")

    def number(field: str) -> int:
        value = text(field)
        return int(float(value)) if value.replace(".", "", 1).isdigit() else 0

    return DeadLetter(
        entry=entry.decode(),
        key=text("key"),
        queue=text("queue"),
        tenant=named.get("tenant", b""),
        reason=text("reason"),
        attempts=number("attempts"),
        token=text("token"),
        outcome=text("outcome"),
        at=number("at") or int(entry.split(b"-")[0]),
        payload=named.get("payload", b""),
        raw={
            key.removeprefix("raw_"): value
            for key, value in named.items()
            if key.startswith("raw_") and key not in _DEAD_FIELDS
        },
    )
