"""Replays which deliveries were in flight together, and compares with what was allowed.

A delivery is in flight from its exec entry to its settlement, or to now. Where its record has an
end by the worker's clock that is earlier, that one counts; the time of deliveries that were lost or
given back is in no record. Both make the number seen smaller than the real one, never greater.

What was allowed holds at the moment of a dispatch: a cap that is lowered, or a worker that leaves,
takes nothing back that is in flight already. Moments before the last change of a rule are left out.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from tq_celery.store.verify.contract import Violation, text
from tq_celery.store.verify.look import Look
from tq_celery.store.verify.records import BEGINNING, EntryId, Settled, entry_id
from tq_celery.store.verify.tasks import Placed

__all__ = ["Flight", "credit", "credit_limits", "flights_of", "over"]

#: A capacity that bounds nothing: what a namespace without a policy dispatches with.
UNBOUNDED = 2**31 - 1


class Flight(NamedTuple):
    """One delivery: its exec entry and the ms at which it ended."""

    entry: EntryId
    end: float
    queue: str
    tenant: bytes
    name: str


def flights_of(settled: Iterable[Settled], placed: Iterable[Placed]) -> list[Flight]:
    """Return the last delivery of every task that had one, in the order of their exec entries."""
    flights = [
        Flight(
            each.exec,
            min(each.at[0], each.finished) if each.finished else each.at[0],
            each.queue, each.tenant, each.name,
        )
        for each in settled
        if each.exec != BEGINNING
    ]  # fmt: skip
    flights += [
        Flight(entry_id(each.member), float("inf"), each.queue, each.tenant, each.name)
        for each in placed
        if each.place == "running"
    ]
    return sorted(flights)


def credit(look: Look, flights: Sequence[Flight]) -> Iterator[Violation]:
    """Yield deliveries beyond a group's capacity, a tenant's cap or the namespace's."""
    if look.config.get("between") == "none":
        return
    changes = look.changes
    ruled = changes.get("policy", 0)
    groups: defaultdict[str, list[Flight]] = defaultdict(list)
    tenants: defaultdict[bytes, list[Flight]] = defaultdict(list)
    for each in flights:
        groups[look.group_of(each.queue)].append(each)
        if each.tenant in look.caps:
            tenants[each.tenant].append(each)
    for group, several in sorted(groups.items()):
        bound = look.counters.get(f"capacity:{group}", UNBOUNDED)
        since = max(ruled, changes.get("groups", 0))
        yield from _beyond(
            several, bound, since, f"on {group}, for which there were {bound} places"
        )
    since = max(ruled, changes.get("caps", 0))
    for tenant, several in sorted(tenants.items()):
        cap = look.caps[tenant]
        yield from _beyond(several, cap, since, f"of tenant {text(tenant)}, whose cap is {cap}")
    if look.max_running:
        words = f"in the namespace, whose cap is {look.max_running}"
        yield from _beyond(flights, look.max_running, since, words)


def credit_limits(look: Look, flights: Iterable[Flight]) -> Iterator[str]:
    """Yield what the replay could not compare."""
    if look.config.get("between") == "none":
        yield "without a policy nothing bounds what is in flight: credit was not looked at"
        return
    groups = {look.group_of(each.queue) for each in flights}
    unknown = [g for g in groups if look.counters.get(f"capacity:{g}", UNBOUNDED) >= UNBOUNDED]
    if unknown:
        yield f"credit: {len(unknown)} groups of queues have no greatest capacity"
    for word in ("policy", "groups", "caps"):
        if word in look.changes:
            yield f"credit: what {word} bound before ms {look.changes[word]} was not compared"


def _beyond(flights: Sequence[Flight], bound: int, since: int, words: str) -> Iterator[Violation]:
    for flight, together in over(flights, bound, since) if bound < UNBOUNDED else ():
        yield Violation("credit", flight.name, f"was number {together} in flight {words}")


def over(flights: Sequence[Flight], bound: int, since: int) -> Iterator[tuple[Flight, int]]:
    """Yield deliveries made after ``since`` (ms) while ``bound`` were in flight, and which it was.

    ``flights`` are in order. What ended in a ms has made room for what was dispatched in it.
    """
    ends: list[float] = []
    for ms, several in groupby(flights, key=lambda flight: flight.entry[0]):
        while ends and ends[0] <= ms:
            heapq.heappop(ends)
        for flight in several:
            if flight.end <= ms:
                continue
            heapq.heappush(ends, flight.end)
            if ms > since and len(ends) > bound:
                yield flight, len(ends)
