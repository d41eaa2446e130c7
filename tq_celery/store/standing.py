"""How each tenant stands: what waits for it, what it got of the workers, and how long it waited.

Waits and shares come from the results stream: of the last :data:`MOST` tasks settled within
:data:`WINDOW` ms, so they cost the scripts and the scheduler nothing. What a tenant got in all is
counted where tasks are settled, whatever that stream keeps. Reads are bounded whatever
the namespace holds, and only what is new is read again. An empty results stream (a
``results_maxlen`` of 1, or nothing settled lately) leaves shares and waits unknown, ``None``.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from redis.exceptions import ResponseError

from tq_celery.measures import fair_shares, percentile
from tq_celery.store.accounts import unpack_served
from tq_celery.store.accounts_contract import Served
from tq_celery.store.inspect import CHUNK, MAX_TENANTS, Inspector, ask, reading
from tq_celery.store.record import ARRIVAL
from tq_celery.store.views import TenantView

__all__ = ["MOST", "WINDOW", "Standings", "TenantStanding"]

#: How far back shares and waits look, in ms.
WINDOW = 600_000
#: Most settled tasks that are looked at.
MOST = 10_000
#: Most settled tasks read in one go; of more, the newest.
READ = 2_000


class _Served(NamedTuple):
    """One settled task: when, for whom, how long it waited once ranked, how long it ran; ms."""

    at: int
    tenant: bytes
    wait: float
    ran: float


@dataclass(frozen=True, slots=True)
class TenantStanding:
    """One tenant; times in ms, shares of 1, ``None`` where nothing is known.

    ``waiting`` counts its pending tasks. ``share`` is what it got of all worker time, and ``fair``
    what it is due: its weight against all others', where what the content ones leave over goes to
    those that want more. A tenant wanted what it got and what waits for it now, each task of the
    length that its tasks have: one that waits for a moment makes nobody poor. ``p50`` and ``p95``
    are waits from ranking to start of its ``served`` last tasks. ``oldest`` is the age of the task
    at its head: the oldest one, unless priority or deadline decide within the tenant. ``service``
    is the worker time that its tasks got in all and ``mean`` how long they waited for it on
    average, since its record began: with its first task, after an hour without any.
    """

    view: TenantView
    waiting: int
    served: int
    share: float | None
    fair: float | None
    p50: float | None
    p95: float | None
    oldest: int | None
    service: float | None
    mean: float | None


class Standings:
    """Reads standings of one namespace again and again; of one thread at a time."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._served: deque[_Served] = deque(maxlen=MOST)
        self._last = ""
        self._added = 0

    def read(self, limit: int = MAX_TENANTS) -> tuple[list[TenantStanding], bool]:
        """Return up to ``limit`` tenants, those with most live tasks first, and whether more exist.

        Tenants with live tasks, with settings, and those served lately.
        """
        now = self._inspector.now()
        served = self._recent(now)
        chosen, partial = self._choose(limit, served)
        views = self._inspector.describe(chosen)
        oldest = self._oldest(views, now)
        shares = _shares(views, served)
        records = self._records(chosen)
        found = [
            _standing(view, served, shares, oldest.get(view.tenant), records.get(view.tenant))
            for view in views
        ]
        return found, partial

    def _recent(self, now: int) -> dict[bytes, list[_Served]]:
        """Return the settled tasks of the window, by tenant."""
        client, name = self._inspector.client, self._inspector.keys.name("results")
        with reading("results"):
            added = _added(client, name)
            # The server was emptied, or its clock set back: what was read is of another time.
            if added < self._added or (self._served and self._served[-1].at > now):
                self._served.clear()
                self._last = ""
            self._added = added
            least = f"({self._last}" if self._last else str(now - WINDOW)
            entries: Any = client.xrevrange(name, "+", least, count=READ)
        if entries:
            self._last = entries[0][0].decode()
        self._served.extend(_served(entry, fields) for entry, fields in reversed(entries))
        while self._served and self._served[0].at < now - WINDOW:
            self._served.popleft()
        by_tenant: dict[bytes, list[_Served]] = defaultdict(list)
        for each in self._served:
            by_tenant[each.tenant].append(each)
        return by_tenant

    def _choose(
        self, limit: int, served: Mapping[bytes, list[_Served]]
    ) -> tuple[list[bytes], bool]:
        """Return the tenants to look at, those with most live tasks first."""
        inspector, live, cursor = self._inspector, dict[bytes, int](), 0
        while True:
            with reading("live"):
                cursor, page = inspector.client.hscan(
                    inspector.keys.name("live"), cursor, count=CHUNK
                )
            live.update({tenant: int(count) for tenant, count in page.items()})
            if not cursor or len(live) >= MAX_TENANTS:
                break
        known = dict.fromkeys(heapq.nlargest(limit, live, key=lambda tenant: live[tenant]))
        partial = bool(cursor) or len(live) > limit
        for word in ("weights", "caps", "paused_tenants"):
            known |= dict.fromkeys(islice(inspector.scan(word), limit + 1))
        known |= dict.fromkeys(served)
        return list(known)[:limit], partial or len(known) > limit

    def _oldest(self, views: list[TenantView], now: int) -> dict[bytes, int]:
        """Return the age of each tenant's head, over its queues."""
        inspector = self._inspector
        places = [(view.tenant, queue) for view in views for queue in view.pending]
        oldest: dict[bytes, int] = {}
        for start in range(0, len(places), CHUNK):
            part = places[start : start + CHUNK]
            names = [inspector.keys.of_tenant("pending", queue, each) for each, queue in part]
            heads = ask(inspector.client, "pending", [("ZRANGE", name, 0, 0) for name in names])
            for (tenant, _), head in zip(part, heads, strict=True):
                if head and len(head[0]) >= ARRIVAL.size:
                    age = now - int(ARRIVAL.unpack_from(head[0])[0])
                    oldest[tenant] = max(oldest.get(tenant, 0), age)
        return oldest

    def _records(self, tenants: list[bytes]) -> dict[bytes, Served]:
        """Return what is kept of the tenants, of those of whom anything is."""
        inspector = self._inspector
        name, records = inspector.keys.name("service"), dict[bytes, Served]()
        for start in range(0, len(tenants), CHUNK):
            part = tenants[start : start + CHUNK]
            (found,) = ask(inspector.client, "service", [("HMGET", name, *part)])
            records |= unpack_served(dict(zip(part, found, strict=True)))
        return records


def _added(client: Any, name: str) -> int:
    """Return how many entries a stream ever got; 0 where there is none."""
    try:
        return int(client.xinfo_stream(name)["entries-added"])
    except ResponseError:
        return 0


def _served(entry: bytes, fields: Mapping[bytes, bytes]) -> _Served:
    """Read one settled task; a task that never started waited and ran for 0."""

    def number(name: bytes) -> float:
        try:
            return float(fields.get(name, b"0"))
        except ValueError:
            return 0.0

    started, finished = number(b"started"), number(b"finished")
    wait = max(0.0, started - number(b"admitted")) if started else -1.0
    ran = max(0.0, finished - started) if started else 0.0
    return _Served(int(entry.split(b"-")[0]), fields.get(b"tenant", b""), wait, ran)


def _shares(
    views: list[TenantView], served: Mapping[bytes, list[_Served]]
) -> dict[bytes, tuple[float, float]]:
    """Return (share, fair share) of the tenants that take part; empty when nobody was served."""
    ran = {tenant: sum(each.ran for each in tasks) for tenant, tasks in served.items()}
    total = sum(ran.values())
    if not total:
        return {}
    shares = {tenant: amount / total for tenant, amount in ran.items()}
    weights = {view.tenant: view.weight for view in views if view.live or view.tenant in shares}
    # Those not looked at took part as well, at the weight of nearly all tenants.
    weights = {tenant: weights.get(tenant, 1.0) for tenant in (*weights, *shares)}
    length = total / sum(map(len, served.values()))
    wants = {tenant: shares.get(tenant, 0.0) for tenant in weights}
    for view in views:
        if view.pending:
            mean = ran[view.tenant] / len(served[view.tenant]) if view.tenant in ran else length
            wants[view.tenant] += sum(view.pending.values()) * mean / total
    fair = fair_shares(weights, wants) if wants != shares else shares
    return {tenant: (shares.get(tenant, 0.0), fair.get(tenant, 0.0)) for tenant in weights}


def _standing(
    view: TenantView,
    served: Mapping[bytes, list[_Served]],
    shares: Mapping[bytes, tuple[float, float]],
    oldest: int | None,
    record: Served | None,
) -> TenantStanding:
    tasks = served.get(view.tenant, [])
    waits = sorted(each.wait for each in tasks if each.wait >= 0)
    share, fair = shares.get(view.tenant, (None, None))
    return TenantStanding(
        view=view,
        waiting=sum(view.pending.values()),
        served=len(tasks),
        share=share,
        fair=fair,
        p50=percentile(waits, 50) if waits else None,
        p95=percentile(waits, 95) if waits else None,
        oldest=oldest,
        service=record.micros / 1_000 if record else None,
        mean=record.waited / record.waits if record and record.waits else None,
    )
