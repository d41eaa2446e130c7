"""The numbers of a namespace in four round trips, whatever it holds: for metrics, never decisions.

What is read grows with the queues and with ``MOST_READ``, not with the tasks: counters are kept by
the scripts, and of tenants and workers at most so many are looked at. The parts are read one after
the other; numbers of one scrape may be some tasks apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import redis

from tq_celery.store.accounts import unpack_served
from tq_celery.store.accounts_contract import MOST_READ, Served
from tq_celery.store.announcement import parse_announcement
from tq_celery.store.contract import WorkerAnnouncement
from tq_celery.store.inspect import ask
from tq_celery.store.keys import GROUP, Keys
from tq_celery.store.record import ARRIVAL

__all__ = ["Gauges", "QueueGauges", "TenantGauges", "read_gauges"]


@dataclass(slots=True)
class QueueGauges:
    """One queue beside its counters. ``oldest`` is the ms of the oldest head, 0 without one."""

    paused: bool = False
    running: int = 0
    tenants: int = 0
    gated: int = 0
    unranked: int = 0
    obituaries: int = 0
    oldest: int = 0


@dataclass(slots=True)
class TenantGauges:
    """One tenant. ``oldest`` is since when its next pending task waits, ms; 0 without one."""

    live: int = 0
    in_flight: int = 0
    weight: float = 1.0
    paused: bool = False
    configured: bool = False
    oldest: int = 0


@dataclass(slots=True)
class Gauges:
    """A namespace; times are ms of the store's clock, 0 for none."""

    now: int = 0
    config: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0
    #: What is left of the leader's lease, ms; negative without a leader.
    lease_left: int = -1
    #: Schedulers that asked for the lease of late and did not get it.
    standbys: int = 0
    ingress_oldest: int = 0
    dead: int = 0
    draining: int = 0
    starved: bool = False
    #: ``<word>:<queue>`` and ``dropped:<stream>`` to count.
    counters: Mapping[str, int] = field(default_factory=dict)
    queues: dict[str, QueueGauges] = field(default_factory=dict)
    #: What tenants got of which records are kept.
    served: Mapping[bytes, Served] = field(default_factory=dict)
    #: How many tenants have live tasks, and those that were looked at.
    tenants: int = 0
    tenant: dict[bytes, TenantGauges] = field(default_factory=dict)
    workers: Sequence[WorkerAnnouncement] = ()
    #: Deliveries in the hands of each worker.
    holding: dict[str, int] = field(default_factory=dict)

    def count(self, word: str, queue: str) -> int:
        """Return a counter, 0 where it was never written."""
        return self.counters.get(f"{word}:{queue}", 0)


def read_gauges(client: redis.Redis, keys: Keys, want: Iterable[bytes] = ()) -> Gauges:
    """Return the numbers of the namespace; of ``want`` a tenant is there even without any.

    Raises StoreUnavailableError and StoreError.
    """
    gauges = Gauges()
    for tenant in want:
        gauges.tenant[tenant] = TenantGauges()
    _read_namespace(client, keys, gauges)
    _read_queues(client, keys, gauges)
    _read_hidden_heads(client, keys, gauges)
    return gauges


def _read_namespace(client: redis.Redis, keys: Keys, gauges: Gauges) -> None:
    name = keys.name
    scans = [("HSCAN", name(word), 0, "COUNT", MOST_READ) for word in _TENANT_HASHES]
    (
        (seconds, micros), config, epoch, left, first, dead, draining, starved, counters,
        queues, paused, leases, offers, tenants, held_tenants, standbys, records, *found,
    ) = ask(
        client,
        "metrics",
        [
            ("TIME",),
            ("HGETALL", name("config")),
            ("GET", name("epoch")),
            ("PTTL", name("leader")),
            ("XRANGE", name("ingress"), "-", "+", "COUNT", 1),
            ("XLEN", name("dead")),
            ("HLEN", name("draining")),
            ("EXISTS", name("starved")),
            ("HGETALL", name("counters")),
            ("SMEMBERS", name("queues")),
            ("SMEMBERS", name("paused_queues")),
            ("ZRANGE", name("workers"), 0, MOST_READ - 1, "WITHSCORES"),
            ("HGETALL", name("announcements")),
            ("HLEN", name("live")),
            ("SSCAN", name("paused_tenants"), 0, "COUNT", MOST_READ),
            ("ZRANGE", name("standbys"), 0, MOST_READ - 1, "WITHSCORES"),
            ("HGETALL", name("service")),
            *scans,
        ],
    )  # fmt: skip
    gauges.now = int(seconds) * 1000 + int(micros) // 1000
    gauges.config = {key.decode(): value.decode() for key, value in config.items()}
    gauges.standbys = sum(float(until) > gauges.now for until in standbys[1::2])
    gauges.epoch, gauges.lease_left = int(epoch or 0), int(left)
    gauges.ingress_oldest = int(first[0][0].partition(b"-")[0]) if first else 0
    gauges.dead, gauges.draining, gauges.starved = int(dead), int(draining), bool(starved)
    gauges.counters = {key.decode(): int(value) for key, value in counters.items()}
    gauges.workers = [
        parse_announcement(worker.decode(errors="replace"), offers.get(worker), int(float(expires)))
        for worker, expires in zip(leases[::2], leases[1::2], strict=True)
    ]
    served = {queue for worker in gauges.workers for queue in worker.queues}
    for queue in sorted({*(raw.decode() for raw in queues), *served}):
        gauges.queues[queue] = QueueGauges(paused=queue.encode() in paused)
    gauges.served = unpack_served(records)
    gauges.tenants = int(tenants)
    _take_tenants(gauges, dict(zip(_TENANT_HASHES, (page for _, page in found), strict=True)))
    for tenant in held_tenants[1]:
        each = gauges.tenant.setdefault(tenant, TenantGauges())
        each.paused = each.configured = True


_TENANT_HASHES = ("weights", "caps", "running", "live")


def _take_tenants(gauges: Gauges, pages: Mapping[str, Mapping[bytes, bytes]]) -> None:
    for word in _TENANT_HASHES:
        for tenant, value in pages[word].items():
            each = gauges.tenant.setdefault(tenant, TenantGauges())
            if word == "live":
                each.live = int(value)
            elif word == "running":
                each.in_flight = int(value)
            else:
                each.configured = True
                if word == "weights":
                    each.weight = float(value)


def _read_queues(client: redis.Redis, keys: Keys, gauges: Gauges) -> None:
    of_queue, width = keys.of_queue, 7
    commands: list[tuple[Any, ...]] = []
    for queue in gauges.queues:
        commands += [
            ("XPENDING", of_queue("exec", queue), GROUP),
            ("ZCARD", of_queue("heads", queue)),
            ("SCARD", of_queue("gated", queue)),
            ("ZCARD", of_queue("stale", queue)),
            ("SCARD", of_queue("rerank", queue)),
            ("XLEN", of_queue("obituary", queue)),
            ("ZRANGE", of_queue("heads", queue), 0, MOST_READ - 1),
        ]
    replies = ask(client, "metrics", commands) if commands else []
    for number, each in enumerate(gauges.queues.values()):
        start = number * width
        pel, heads, gated, stale, rerank, obituaries, first = replies[start : start + width]
        each.running = int(pel["pending"]) if pel else 0
        for consumer in pel["consumers"] if pel else ():
            worker = consumer["name"].decode(errors="replace")
            gauges.holding[worker] = gauges.holding.get(worker, 0) + int(consumer["pending"])
        each.tenants, each.gated, each.unranked = int(heads), int(gated), int(stale) + int(rerank)
        each.obituaries = int(obituaries)
        for head in first:
            since, _ = ARRIVAL.unpack_from(head)
            _note_head(gauges.tenant, head[ARRIVAL.size :], since)
            each.oldest = min(each.oldest or since, since)


def _read_hidden_heads(client: redis.Redis, keys: Keys, gauges: Gauges) -> None:
    """Look at the next task of tenants that wait and compete nowhere: a pause, a cap, a switch."""
    busy = [queue for queue in gauges.queues if gauges.count("pending", queue) > 0]
    hidden = [
        tenant
        for tenant, each in gauges.tenant.items()
        if each.live > each.in_flight and not each.oldest
    ][: MOST_READ // max(1, len(busy))]
    asked = [(tenant, queue) for tenant in hidden for queue in busy]
    if not asked:
        return
    first = ask(
        client,
        "metrics",
        [("ZRANGE", keys.of_tenant("pending", queue, each), 0, 0) for each, queue in asked],
    )
    for (tenant, queue), members in zip(asked, first, strict=True):
        if members:
            since, _ = ARRIVAL.unpack_from(members[0])
            _note_head(gauges.tenant, tenant, since)
            of_queue = gauges.queues[queue]
            of_queue.oldest = min(of_queue.oldest or since, since)


def _note_head(tenants: dict[bytes, TenantGauges], tenant: bytes, since: int) -> None:
    each = tenants.setdefault(tenant, TenantGauges())
    each.oldest = min(each.oldest or since, since)
