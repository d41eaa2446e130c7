"""What a namespace holds at one moment, in a form that two stores can be compared by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["FLOWS", "TIMES", "View", "Waiting", "differences", "split_counters", "suppressed"]

Waiting = tuple[bytes, float, int, int]
#: Words of the counters that say what has happened, where the others say where tasks are.
FLOWS = frozenset(
    "admitted promoted reclaimed returned repeated resettled due missed service other "
    "capacity".split()
)
#: Counters of times, which differ between two runs of the same steps.
TIMES = ("other:waited", "longest0:", "longest1:", "slot_ms:")
#: Ends after which a deadline was kept or missed.
_JUDGED = ("completed", "failed", "ignored", "rejected", "expired")
#: The fields of a view that are empty when every accepted task has ended.
_LIVE = (
    "live running ingress delayed pending heads gated unranked starts exec superseded obituary "
    "payload ids draining"
).split()


@dataclass
class View:
    """A namespace at one moment; equal for two stores that were taken through the same steps."""

    counters: dict[str, int] = field(default_factory=dict)
    #: counters of :data:`FLOWS`
    flows: dict[str, int] = field(default_factory=dict)
    #: tenant -> (microseconds served, waits, whether it is shown)
    service: dict[bytes, tuple[int, int, int]] = field(default_factory=dict)
    live: dict[bytes, int] = field(default_factory=dict)
    running: dict[bytes, int] = field(default_factory=dict)
    payload: set[bytes] = field(default_factory=set)
    ingress: list[tuple[str, bytes, bytes]] = field(default_factory=list)
    delayed: list[tuple[str, bytes, bytes, int, int]] = field(default_factory=list)
    #: (queue, tenant) -> (key, rank, attempts, paid) in order
    pending: dict[tuple[str, bytes], list[Waiting]] = field(default_factory=dict)
    heads: dict[str, list[tuple[bytes, float]]] = field(default_factory=dict)
    gated: dict[str, set[bytes]] = field(default_factory=dict)
    unranked: dict[tuple[str, bytes], set[bytes]] = field(default_factory=dict)
    virtual: dict[str, float] = field(default_factory=dict)
    starts: dict[str, dict[bytes, float]] = field(default_factory=dict)
    #: queue -> (key, attempts, epoch) in order
    exec: dict[str, list[tuple[bytes, int, int]]] = field(default_factory=dict)
    superseded: dict[str, int] = field(default_factory=dict)
    obituary: dict[str, list[tuple[bytes, str]]] = field(default_factory=dict)
    #: id -> its newest key, where that is not its first
    ids: dict[str, bytes] = field(default_factory=dict)
    done: set[bytes] = field(default_factory=set)
    revoked: set[str] = field(default_factory=set)
    draining: set[bytes] = field(default_factory=set)
    #: (key, queue, tenant, outcome, attempts, worker, epoch) in order
    results: list[tuple[Any, ...]] = field(default_factory=list)
    #: (key, ms between its last exec entry and its dispatch, None without an entry; whether it had
    #: been delivered before), in order
    delivered: list[tuple[bytes, int | None, bool]] = field(default_factory=list)
    #: (queue, tenant, outcome, microseconds it ran, whether it was dispatched, whether it was late;
    #: None without a deadline), in order
    ends: list[tuple[str, bytes, str, int, bool, bool | None]] = field(default_factory=list)
    #: (key, reason) in order; the key is empty for an unreadable entry
    dead: list[tuple[bytes, str]] = field(default_factory=list)
    fence: int = 0

    def scan(self) -> dict[str, int]:
        """Count live tasks by state and queue from the structures themselves."""
        found: Counter[str] = Counter()
        for queue, _, _ in self.ingress:
            found[f"submitted:{queue}"] += 1
        for queue, *_ in self.delayed:
            found[f"delayed:{queue}"] += 1
        for (queue, _), tasks in self.pending.items():
            found[f"pending:{queue}"] += len(tasks)
        for (queue, _), keys in self.unranked.items():
            found[f"pending:{queue}"] += len(keys)
        for queue, entries in self.exec.items():
            found[f"dispatched:{queue}"] += len(entries)
        for _, queue, _, outcome, *_ in self.results:
            found[f"{outcome}:{queue}"] += 1
        for queue in {name.partition(":")[2] for name in found} | self._accepting():
            of_queue = sum(n for name, n in found.items() if name.partition(":")[2] == queue)
            found[f"accepted:{queue}"] = of_queue
        return {name: n for name, n in found.items() if n}

    def scan_ends(self) -> dict[str, int]:
        """Count from the result records what the counters of ends must be."""
        found: Counter[str] = Counter()
        for queue, _, outcome, micros, _, late in self.ends:
            found[f"service:{queue}"] += micros
            if late is not None and outcome in _JUDGED:
                found[f"due:{queue}"] += 1
                found[f"missed:{queue}"] += late
        return {name: n for name, n in found.items() if n}

    def scan_served(self) -> dict[bytes, tuple[int, int]]:
        """Add up microseconds and waits by tenant from the result records."""
        found: dict[bytes, tuple[int, int]] = {}
        for _, tenant, _, micros, dispatched, _ in self.ends:
            if micros or dispatched:
                before = found.get(tenant, (0, 0))
                found[tenant] = before[0] + micros, before[1] + dispatched
        return found

    def scan_tenants(self) -> tuple[dict[bytes, int], dict[bytes, int]]:
        """Count live tasks by tenant, and separately those outside exec."""
        waiting: Counter[bytes] = Counter(tenant for _, tenant, _ in self.ingress)
        waiting.update(tenant for _, tenant, *_ in self.delayed)
        for (_, tenant), tasks in self.pending.items():
            waiting[tenant] += len(tasks)
        for (_, tenant), keys in self.unranked.items():
            waiting[tenant] += len(keys)
        return dict(waiting), {t: n for t, n in self.running.items() if n}

    def nonempty(self, *fields: str) -> dict[str, Any]:
        """Return those of the named fields (all that hold live tasks, by default) with content."""
        return {name: getattr(self, name) for name in fields or _LIVE if getattr(self, name)}

    def _accepting(self) -> set[str]:
        return {n.partition(":")[2] for n in self.counters if n.startswith("accepted:")}

    def assert_conserved(self) -> None:
        """Compare the counters with a full scan: nothing vanished, nothing appeared."""
        counted = {n: c for n, c in self.counters.items() if not n.startswith("unreadable:")}
        assert counted == self.scan()
        ends = {
            n: c for n, c in self.flows.items() if n.split(":")[0] in ("service", "due", "missed")
        }
        assert ends == self.scan_ends()
        waiting, running = self.scan_tenants()
        total = Counter(waiting) + Counter(running)
        assert dict(total) == self.live
        entries = sum(len(each) for each in self.exec.values())
        assert sum(running.values()) == entries


def split_counters(counters: Iterable[tuple[str, int]]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the counters that are not zero: where tasks are, and what has happened."""
    split: tuple[dict[str, int], dict[str, int]] = {}, {}
    for name, count in counters:
        if count and not name.startswith(TIMES):
            split[name.partition(":")[0] in FLOWS][name] = count
    return split


def differences(one: View, other: View) -> dict[str, tuple[Any, Any]]:
    """Return the fields in which two views differ."""
    return {
        name: (mine, theirs)
        for name, mine in vars(one).items()
        if mine != (theirs := getattr(other, name))
    }


def suppressed(before: View, after: View) -> int:
    """Return how many duplicates were counted between two views that do not differ otherwise."""
    assert differences(replace(before, flows=after.flows), after) == {}
    more = {name: count - before.flows.get(name, 0) for name, count in after.flows.items()}
    changed = {name: count for name, count in more.items() if count}
    assert {name.partition(":")[0] for name in changed} <= {"repeated", "resettled"}, changed
    return sum(changed.values())
