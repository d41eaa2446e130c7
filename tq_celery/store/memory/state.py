"""What a namespace holds, as plain Python structures under the names the Redis keys have.

Also the steps every script shares: counters, tenant counts, wakes, the fence.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tq_celery.states import Outcome
from tq_celery.store.accounts_contract import Served
from tq_celery.store.contract import Obituary, Settlement, Token, WorkerAnnouncement
from tq_celery.store.memory.ranked import Ranked
from tq_celery.store.stopping_contract import Drained

__all__ = ["DeadLetter", "Done", "Exec", "IngressEntry", "Namespace", "Result", "Run"]


@dataclass(slots=True)
class IngressEntry:
    """One submitted task: ``fields`` only for entries that are not ours."""

    queue: str
    tenant: bytes
    record: bytes
    fields: dict[bytes, bytes] | None = None


@dataclass(slots=True)
class Exec:
    """One entry of an exec stream; ``worker`` once it has been read."""

    key: bytes
    epoch: int
    attempts: int
    worker: str | None = None


@dataclass(slots=True)
class Run:
    """What is needed to settle a delivery or to return it: its rank and its record."""

    epoch: int
    generation: int
    tenant: bytes
    rank: float
    record: bytes
    dispatched: int


@dataclass(slots=True)
class Result:
    """One settled task and how it ended."""

    key: bytes
    queue: str
    tenant: bytes
    record: bytes
    dispatched: int
    settlement: Settlement
    worker: str

    @property
    def entry(self) -> bytes:
        """The exec entry of its last delivery, empty when it ended outside a worker."""
        return self.settlement.token.entry


@dataclass(slots=True)
class DeadLetter:
    """A task that will not run again unless an operator requeues it, or an unreadable entry."""

    queue: str
    tenant: bytes
    record: bytes
    payload: bytes | None
    digest: bytes
    reason: str
    token: Token | None = None
    fields: Mapping[bytes, bytes] | None = None


@dataclass(slots=True)
class Done:
    """The done memory: two generations of settled keys, so that forgetting costs one step."""

    new: dict[bytes, bytes] = field(default_factory=dict)
    old: dict[bytes, bytes] = field(default_factory=dict)
    since: int = 0


def _nested() -> defaultdict[str, dict[bytes, Any]]:
    return defaultdict(dict)


@dataclass
class Namespace:
    """One namespace and its clock: ``now`` is ms, and moves only when somebody sets it."""

    now: int = 1_700_000_000_000
    done_memory: int = 3_600_000
    done_max: int = 1_000_000
    sequence: int = 0
    config: dict[str, str] = field(default_factory=dict)
    leader: tuple[str, int] | None = None
    epoch: int = 0
    fence: int = 0
    wakes: set[str] = field(default_factory=set)
    queues: set[str] = field(default_factory=set)
    groups: dict[str, str] = field(default_factory=dict)
    payload: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    ingress: dict[bytes, IngressEntry] = field(default_factory=dict)
    delayed: Ranked = field(default_factory=Ranked)
    pending: dict[tuple[str, bytes], Ranked] = field(default_factory=dict)
    heads: defaultdict[str, Ranked] = field(default_factory=lambda: defaultdict(Ranked))
    gated: defaultdict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    outdated: dict[tuple[str, bytes], Ranked] = field(default_factory=dict)
    virtual: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    starts: defaultdict[str, dict[bytes, float]] = field(default_factory=_nested)
    exec: defaultdict[str, dict[bytes, Exec]] = field(default_factory=_nested)
    running: defaultdict[str, dict[bytes, Run]] = field(default_factory=_nested)
    superseded: defaultdict[str, dict[bytes, Outcome]] = field(default_factory=_nested)
    obituary: defaultdict[str, dict[bytes, Obituary]] = field(default_factory=_nested)
    mourners: dict[bytes, str] = field(default_factory=dict)
    leases: dict[str, int] = field(default_factory=dict)
    announcements: dict[str, WorkerAnnouncement] = field(default_factory=dict)
    live_of: Counter[bytes] = field(default_factory=Counter)
    running_of: Counter[bytes] = field(default_factory=Counter)
    weights: dict[bytes, float] = field(default_factory=dict)
    caps: dict[bytes, int] = field(default_factory=dict)
    paused_tenants: set[bytes] = field(default_factory=set)
    paused_queues: set[str] = field(default_factory=set)
    counters: Counter[tuple[str, str]] = field(default_factory=Counter)
    service: dict[bytes, Served] = field(default_factory=dict)
    accounted: int = 0
    done: Done = field(default_factory=Done)
    results: list[Result] = field(default_factory=list)
    dead: dict[bytes, DeadLetter] = field(default_factory=dict)
    ids: dict[str, tuple[bytes, str, bytes]] = field(default_factory=dict)
    revoked: dict[str, int] = field(default_factory=dict)
    revoked_stamps: dict[tuple[str, str], int] = field(default_factory=dict)
    draining: dict[bytes, Drained] = field(default_factory=dict)
    starved: bool = False

    def entry_id(self) -> bytes:
        """Return the next stream entry id: unique, and in order of time."""
        self.sequence += 1
        return b"%d-%d" % (self.now, self.sequence)

    def count(self, word: str, queue: str, by: int = 1) -> None:
        """Add to a conservation counter."""
        self.counters[word, queue] += by

    def move(self, queue: str, source: str, target: str) -> None:
        """Count one task as having passed from one state to another."""
        self.count(source, queue, -1)
        self.count(target, queue)

    def wake(self, kind: str) -> None:
        """Tell the leader that something of this kind changed."""
        self.wakes.add(kind)

    def remember_done(self, key: bytes, digest: bytes) -> None:
        """Move a settled key into the done memory, forgetting what is old or too much."""
        done = self.done
        if self.now - done.since >= self.done_memory or len(done.new) * 2 >= self.done_max:
            done.old, done.new, done.since = done.new, {}, self.now
        done.new[key] = digest

    def done_digest(self, key: bytes) -> bytes | None:
        """Return the digest a settled key had, while it is remembered."""
        return self.done.new.get(key, self.done.old.get(key))
