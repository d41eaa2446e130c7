"""What :mod:`~tq_celery.store.inspect` reads: values for operators, never for decisions.

Times are milliseconds of the store's clock, ages and remaining times are milliseconds too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = [
    "DeadLetter",
    "LeaderView",
    "Overview",
    "QueueView",
    "ResultView",
    "TenantView",
    "WorkerView",
    "empty_overview",
]


@dataclass(frozen=True, slots=True)
class LeaderView:
    """Who leads. ``owner`` is ``None`` and ``remaining`` 0 when nobody holds the lease.

    ``remaining`` is -1 for a lease without an end, which no scheduler ever takes.

    ``epoch`` is the last one granted and ``fence`` the highest that has written. ``standbys`` are
    the other schedulers that asked for the lease lately.
    """

    owner: str | None
    epoch: int
    fence: int
    remaining: int
    standbys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueView:
    """One queue: its live tasks by state, what serves it, and its totals.

    ``dispatched`` tasks wait for a worker to read them; ``running`` ones are in a worker's hands,
    started or not. ``tenants`` counts those that compete and ``gated`` those held back by a cap or
    a pause; ``unranked`` counts tenants that a policy switch has not reached yet. ``totals`` holds
    what was accepted and how it ended, since the namespace began. ``missing`` is what was accepted
    and is neither settled nor live by the counters: always 0, unless something is wrong.
    """

    queue: str
    paused: bool
    submitted: int
    delayed: int
    pending: int
    dispatched: int
    running: int
    tenants: int
    gated: int
    unranked: int
    obituaries: int
    workers: int
    slots: int
    missing: int
    totals: Mapping[str, int] = field(default_factory=dict)

    @property
    def live(self) -> int:
        """Tasks accepted and not settled."""
        return self.submitted + self.delayed + self.pending + self.dispatched + self.running


@dataclass(frozen=True, slots=True)
class TenantView:
    """One tenant: its settings and its live tasks.

    ``live`` counts accepted tasks not yet settled, ``running`` those dispatched, ``pending`` the
    waiting ones per queue. ``max_running`` is ``None`` without a cap.
    """

    tenant: bytes
    weight: float
    max_running: int | None
    paused: bool
    live: int
    running: int
    pending: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One announced worker; ``remaining`` is negative when its lease has lapsed.

    ``holding`` counts the deliveries it has not settled.
    """

    worker: str
    host: str
    pid: int
    pool: str
    queues: tuple[str, ...]
    slots: int
    ahead: int
    holding: int
    remaining: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One buried task, or an ingress entry nobody could read (then ``raw`` has its fields).

    ``key`` is ``nesting.retries.generation.id``; ``attempts`` counts lost deliveries; ``at`` is
    when it was buried.
    """

    entry: str
    key: str
    queue: str
    tenant: bytes
    reason: str
    attempts: int
    token: str
    outcome: str
    at: int
    payload: bytes
    raw: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResultView:
    """One settled task as the results stream has it."""

    entry: str
    fields: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Overview:
    """The namespace at one look; the parts were read one after the other, not atomically.

    ``oldest`` is when the first task in ingress was submitted and ``next_due`` when the first
    delayed task is due, both in ms, 0 without one. ``partial`` tells that there were more tenants
    than were read. ``draining`` counts drained tasks that are not known to be published.
    """

    namespace: str
    now: int
    config: Mapping[str, str]
    leader: LeaderView
    submitted: int
    oldest: int
    delayed: int
    next_due: int
    dead: int
    starved: bool
    queues: list[QueueView]
    tenants: list[TenantView]
    workers: list[WorkerView]
    partial: bool = False
    draining: int = 0


def empty_overview(namespace: str) -> Overview:
    """Return what an empty namespace looks like."""
    return Overview(
        namespace=namespace,
        now=0,
        config={},
        leader=LeaderView(None, 0, 0, 0),
        submitted=0,
        oldest=0,
        delayed=0,
        next_due=0,
        dead=0,
        starved=False,
        queues=[],
        tenants=[],
        workers=[],
    )
