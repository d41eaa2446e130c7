r"""Tenants that wait together are served alike: the bound of self-clocked fair queuing.

For two tenants that have work waiting over the same interval, the service each received in it,
divided by its weight, differs by at most ::

    | W_i / w_i - W_j / w_j |  <=  c_i / w_i + c_j / w_j

with ``c`` the largest cost of either's tasks (Golestani 1994; ``policies/wfq.py`` has the rule).
Here the intervals are found from the records: a tenant waits as long as one of its tasks does.
Service is charged at a task's first dispatch. Of a task that came back only the last one is known:
its cost may belong anywhere between submission and dispatch, and the bound is wider by that much.

Not compared: tenants with a cap or a pause, which lose their place while they are held back; queues
that share workers with others, where a free slot of one may serve a tenant of that one alone; and
the time before the last change of a rule.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, combinations, pairwise

from tq_celery.store.verify.contract import Violation, text
from tq_celery.store.verify.look import Look
from tq_celery.store.verify.records import BEGINNING
from tq_celery.store.verify.waits import Wait, settled_by

__all__ = ["MOST", "alone", "unequal"]

#: Tenants of a queue, those with the most dispatches, that are compared each with each; the others
#: are compared with the first of them.
MOST = 24
#: Part of a sum of costs that rounding may take.
_ROUNDING = 1e-9


@dataclass(slots=True)
class _Tenant:
    """``waiting``: disjoint intervals of ms; ``times`` and ``sums``: service / weight over time.

    ``doubtful``: (from ms, to ms, cost / weight) of tasks whose first dispatch is not known.
    """

    name: str
    largest: float = 0.0
    waiting: list[tuple[float, float]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)
    doubtful: list[tuple[float, float, float]] = field(default_factory=list)

    def served(self, until: int) -> float:
        """Return service / weight up to ``until`` dispatches."""
        return self.sums[until - 1] if until else 0.0

    def doubt(self, low: float, high: float) -> float:
        """Return what may have been served between the two as well."""
        return sum(cost for start, end, cost in self.doubtful if start < high and end > low)


def alone(look: Look, queues: Iterable[str]) -> list[str]:
    """Return the queues that share their workers with no other."""
    names = sorted(queues)
    sizes = Counter(look.group_of(queue) for queue in names)
    return [queue for queue in names if sizes[look.group_of(queue)] == 1]


def unequal(
    look: Look, waits: Sequence[Wait], clock: int, checked: Counter[str]
) -> Iterator[Violation]:
    """Yield pairs of tenants of which one was served more than the bound allows.

    ``clock`` is by how many ms the time of an admission may be off; pairs are counted in
    ``checked``.
    """
    changes = look.changes
    # who gets a greater weight may have arrears of the smaller one
    since = settled_by(waits, look, "policy", "groups", "virtual", "weights")
    since = max([since, *(changes.get(word, 0) for word in ("pauses", "caps"))])
    queues: defaultdict[str, list[Wait]] = defaultdict(list)
    for each in waits:
        queues[each.queue].append(each)
    for queue in alone(look, queues):
        tenants = _tenants(look, queues[queue], since, clock)
        first, rest = tenants[:MOST], tenants[MOST:]
        pairs = [*combinations(first, 2), *((first[0], other) for other in rest)]
        checked["service"] += len(pairs)
        for one, other in pairs:
            told = _compare(*sorted((one, other), key=lambda each: len(each.times)))
            if told:
                names = " and ".join(sorted((one.name, other.name)))
                yield Violation("service", names, f"{told} on {queue}")


def _tenants(look: Look, waits: Iterable[Wait], since: float, clock: int) -> list[_Tenant]:
    held = look.caps.keys() | look.paused_tenants
    parts: defaultdict[bytes, list[Wait]] = defaultdict(list)
    for each in waits:
        if each.tenant not in held:
            parts[each.tenant].append(each)
    found = [
        _tenant(tenant, part, look.weights.get(tenant, 1.0), since, look.at, clock)
        for tenant, part in parts.items()
    ]
    return sorted(found, key=lambda tenant: (-len(tenant.times), tenant.name))


def _tenant(
    raw: bytes, waits: Sequence[Wait], weight: float, since: float, until: int, clock: int
) -> _Tenant:
    tenant = _Tenant(text(raw), largest=max(each.task.cost for each in waits) / weight)
    charged = sorted(
        (each.exec, each.task.cost / weight) for each in waits
        if each.known and each.exec != BEGINNING
    )  # fmt: skip
    tenant.times = [entry[0] for entry, _ in charged]
    tenant.sums = list(accumulate(cost for _, cost in charged))
    tenant.doubtful = [
        (each.submitted, each.end, each.task.cost / weight) for each in waits if not each.known
    ]
    # who loses a waiting task may lose arrears with it, so its time is cut there
    cuts = sorted(each.end for each in waits if each.exec == BEGINNING and each.end != float("inf"))
    for low, high in _union([each for each in waits if each.known], clock):
        edges = [low, *(cut for cut in cuts if low < cut < high), high]
        for start, end in pairwise(edges):
            start, end = max(start + clock, since), min(end, until)
            if start < end:
                tenant.waiting.append((start, end))
    return tenant


def _union(waits: Iterable[Wait], clock: int) -> Iterator[tuple[float, float]]:
    """Yield the intervals in which at least one of the tasks waits."""
    low = high = -1.0
    for each in sorted(waits, key=lambda wait: wait.admitted):
        if each.admitted + clock < high:
            high = max(high, each.end)
            continue
        if low >= 0:
            yield low, high
        low, high = each.admitted, each.end
    if low >= 0:
        yield low, high


def _compare(few: _Tenant, many: _Tenant) -> str:
    """Say by how much the two differ where that is too much; empty where it is not."""
    starts = [low for low, _ in many.waiting]
    for low, high in few.waiting:
        place = max(0, bisect_right(starts, low) - 1)
        while place < len(starts) and starts[place] < high:
            other_low, other_high = many.waiting[place]
            told = _between(few, many, max(low, other_low), min(high, other_high))
            if told:
                return told
            place += 1
    return ""


def _between(few: _Tenant, many: _Tenant, low: float, high: float) -> str:
    begin, end = bisect_right(few.times, low), bisect_left(few.times, high)
    start = few.served(begin) - many.served(bisect_right(many.times, low))
    differences = [0.0]
    place = begin
    while place < end:
        ms, before = few.times[place], few.served(place)
        place = bisect_right(few.times, ms, place, end)
        differences += [
            before - many.served(bisect_left(many.times, ms)) - start,
            few.served(place) - many.served(bisect_right(many.times, ms)) - start,
        ]
    last = many.served(max(bisect_left(many.times, high), bisect_right(many.times, low)))
    differences.append(few.served(place) - last - start)
    gap = max(differences) - min(differences)
    bound = few.largest + many.largest
    if gap <= bound + _ROUNDING * max(1.0, gap):
        return ""
    bound += few.doubt(low, high) + many.doubt(low, high)
    if gap <= bound + _ROUNDING * max(1.0, gap):
        return ""
    return f"differ in service by {gap:g} where {bound:g} is allowed, from ms {low:.0f}"
