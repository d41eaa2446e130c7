"""What the rest of the library asks of a store: our types in, our types out.

:class:`~tq_celery.store.redis_store.RedisStore` keeps a namespace on a server;
:class:`~tq_celery.store.memory_store.MemoryStore` keeps it in a process for tests and simulation.
One contract suite (``tests/store/contract``) runs on both. Each method is one atomic step.

Times are milliseconds of the store's own clock. Batches are at most :data:`MAX_BATCH` items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tq_celery.states import Outcome
from tq_celery.store.accounts_contract import AccountsStore
from tq_celery.store.announcement import WorkerAnnouncement
from tq_celery.store.record import TaskKey
from tq_celery.store.stopping_contract import StoppingStore

__all__ = [
    "MAX_BATCH",
    "Admission",
    "Arrival",
    "Delivery",
    "Dispatched",
    "DueTask",
    "Grant",
    "Ingress",
    "LeaderStore",
    "Limits",
    "Obituary",
    "ProducerStore",
    "Promotion",
    "Receipt",
    "RenewReply",
    "Return",
    "Settlement",
    "StaleTenant",
    "StoppingStore",
    "Store",
    "Submission",
    "Token",
    "WorkerAnnouncement",
    "WorkerStore",
]

#: Most items one script call takes: a few milliseconds of server time.
MAX_BATCH = 500


class Token(NamedTuple):
    """The identity of one delivery; only its holder may settle the task."""

    queue: str
    entry: bytes
    epoch: int

    def encode(self) -> str:
        """Return the text form that travels in a message header."""
        return f"{self.epoch}/{self.entry.decode()}/{self.queue}"

    @classmethod
    def decode(cls, text: str) -> Token:
        """Parse :meth:`encode`; raises ``ValueError`` on anything else."""
        epoch, entry, queue = text.split("/", 2)
        return cls(queue, entry.encode(), int(epoch))


class Submission(NamedTuple):
    """One task on its way in. ``digest`` is 16 bytes over name, arguments and options.

    ``deadline_in`` and ``delay`` are milliseconds from the moment the store takes the task;
    ``deadline`` and ``due`` are absolute. At most one of each pair is set. ``parent`` is the token
    of the delivery this task replaces (``supersedes`` says as what): both happen in one step.
    """

    key: TaskKey
    queue: str
    tenant: bytes
    payload: bytes
    digest: bytes
    cost: float = 1.0
    priority: int = 0
    deadline: int | None = None
    deadline_in: int | None = None
    delay: int | None = None
    due: int | None = None
    parent: Token | None = None
    supersedes: Outcome = Outcome.RETRIED


@dataclass(frozen=True, slots=True)
class Limits:
    """What a submission is held to; ``None`` means no bound.

    ``namespace``, ``queue`` and ``tenant`` bound the number of waiting tasks, ``payload`` bytes.
    After ``not_after`` (ms) nothing is taken any more: a server that was frozen or paused comes to
    a call long after its caller was told that it had failed (celery/celery #4296).
    """

    namespace: int | None = None
    queue: int | None = None
    tenant: int | None = None
    payload: int | None = None
    not_after: int | None = None

    def until(self, not_after: int | None) -> Limits:
        """Return these limits with another last moment."""
        return Limits(self.namespace, self.queue, self.tenant, self.payload, not_after)


class Receipt(NamedTuple):
    """What became of a submission.

    ``status`` is ``accepted``, ``repeat`` (same key, same digest: taken before) or ``stale`` (the
    parent's token is not current, so another delivery decides). ``at`` is ms.
    """

    status: str
    at: int


class Grant(NamedTuple):
    """An election's result: ``epoch`` is 0 when another owner leads for ``remaining`` ms more.

    ``in_force`` is the epoch that the lease is held under now, by whomever; ``at`` is ms.
    """

    epoch: int
    remaining: int
    in_force: int = 0
    at: int = 0


class Arrival(NamedTuple):
    """One entry of the ingress stream. ``fields`` holds the raw entry when it cannot be read."""

    entry: bytes
    queue: str
    tenant: bytes
    record: bytes
    fields: Mapping[bytes, bytes] | None = None
    reason: str = ""


class Ingress(NamedTuple):
    """What woke the leader: arrivals in order, and the kinds written to the wake stream."""

    arrivals: Sequence[Arrival]
    wakes: frozenset[str]
    cursor: bytes


class Admission(NamedTuple):
    """A ranked arrival: ``record`` with its arrival filled in, and its ``score``."""

    entry: bytes
    queue: str
    tenant: bytes
    score: float
    record: bytes


class DueTask(NamedTuple):
    """A delayed task whose time has come; ``member`` identifies it in the delayed set.

    ``reason`` says why the member cannot be read; the fields after ``due`` are then empty.
    """

    member: bytes
    due: int
    queue: str
    tenant: bytes
    record: bytes
    reason: str = ""


class Promotion(NamedTuple):
    """A ranked due task."""

    member: bytes
    queue: str
    tenant: bytes
    score: float
    record: bytes


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What one dispatch did: ``count`` moved; ``starved`` when work was left for lack of credit.

    ``counts`` has the number in flight per asked queue after the step.
    """

    count: int
    starved: bool
    counts: Mapping[str, int] = field(default_factory=dict)


class StaleTenant(NamedTuple):
    """A tenant still ranked by an older generation, with up to a batch of its members."""

    queue: str
    tenant: bytes
    members: Sequence[tuple[bytes, float]]


class Delivery(NamedTuple):
    """A task handed to a worker.

    ``payload`` is the submitted message and ``digest`` its 16 bytes; ``None`` and empty when the
    store no longer has it. ``key`` and ``epoch`` are empty when the exec entry is unreadable.
    ``revoked`` tells that the id, or one of its stamps, is marked: it must not be started.
    ``since`` is when the task was taken or became due, ms; 0 when that is not known.
    """

    token: Token
    key: bytes
    attempts: int
    payload: bytes | None
    digest: bytes = b""
    revoked: bool = False
    since: int = 0


class Obituary(NamedTuple):
    """A terminal state decided outside a worker that the worker writes to the result backend."""

    queue: str
    entry: bytes
    key: bytes
    outcome: Outcome
    reason: str
    payload: bytes | None


class Settlement(NamedTuple):
    """How a delivery ended. Times are float ms on the store's clock; 0 = never started."""

    token: Token
    outcome: Outcome
    digest: bytes
    started: float = 0.0
    finished: float = 0.0


class Return(NamedTuple):
    """A delivery handed back unsettled.

    ``counted`` charges the delivery budget; ``delay`` ms keeps it out of reach (0 = at once).
    """

    token: Token
    counted: bool = False
    delay: int = 0


class RenewReply(NamedTuple):
    """``status`` is ``renewed``, ``joined`` (new or back after a lapse); ``now`` is server ms."""

    status: str
    now: float


class ProducerStore(Protocol):
    """What a producer needs."""

    def submit(self, submission: Submission, limits: Limits) -> Receipt:
        """Take one task: payload, ingress or delayed entry, counters, done-memory check.

        Raises DuplicateTaskError, QueueFullError, PayloadTooLargeError, LateError,
        StoreUnavailableError.
        """

    def submit_many(
        self, submissions: Sequence[Submission], limits: Limits
    ) -> list[Receipt | Exception]:
        """Submit each as :meth:`submit` does, in order, a batch in one atomic step.

        A refusal stands in its task's place; a batch that comes too late is raised as a whole.
        """


class LeaderStore(Protocol):
    """What a scheduler needs. Methods with ``epoch`` raise FencedError without side effects."""

    def elect(self, owner: str, ttl: int, floor: int = 0) -> Grant:
        """Take a free lease for ``ttl`` ms, under an epoch above ``floor`` and all traces of one.

        Where another leads below ``floor``, its next renewal fails. Raises StoreUnavailableError
        also for a grant that too few replicas have; it is then released.
        """

    def extend(self, owner: str, epoch: int, ttl: int) -> bool:
        """Renew the lease if ``owner`` still holds it under ``epoch``."""

    def resign(self, owner: str, epoch: int) -> bool:
        """Release the lease if ``owner`` holds it, and wake standbys."""

    def await_succession(self, timeout: int) -> bool:
        """Block up to ``timeout`` ms; whether the lease may have been released or granted.

        Returns at once with what happened since the last call, and true from the first one.
        """

    def read_ingress(self, cursor: bytes, count: int, timeout: int) -> Ingress:
        """Return arrivals from the front of ingress, blocking up to ``timeout`` ms (0 = no)."""

    def admit(self, epoch: int, generation: int, items: Sequence[Admission]) -> int:
        """Move ranked arrivals from ingress to pending; returns how many moved."""

    def bury_ingress(self, epoch: int, items: Sequence[Arrival]) -> int:
        """Move unreadable ingress entries to the dead-letter stream with their raw fields."""

    def due(self, count: int) -> tuple[list[DueTask], int | None]:
        """Return due delayed tasks, most urgent first in one ms, and ms until the next one."""

    def bury_delayed(self, epoch: int, items: Sequence[DueTask]) -> int:
        """Move unreadable members of the delayed set to the dead-letter stream, raw."""

    def promote(self, epoch: int, generation: int, items: Sequence[Promotion]) -> int:
        """Move ranked due tasks to pending; returns how many moved."""

    def dispatch(self, epoch: int, queues: Sequence[str], capacity: int, batch: int) -> Dispatched:
        """Move best heads to exec while fewer than ``capacity`` are in flight on ``queues``."""

    def config(self) -> dict[str, str]:
        """Return the namespace's stored configuration."""

    def stale(self, count: int) -> list[StaleTenant]:
        """Return tenants whose pending tasks still carry ranks of an older generation."""

    def rerank(
        self,
        epoch: int,
        generation: int,
        queue: str,
        tenant: bytes,
        ranks: Sequence[tuple[bytes, float]],
    ) -> int:
        """Give members new scores; returns how many of the tenant stay outdated, -1 = generation.

        Call with no ranks for a tenant without members.
        """

    def regroup(self, epoch: int, groups: Mapping[str, str]) -> int:
        """Record which queues share workers; tenants of a changed group restart at V."""

    def workers(self) -> tuple[list[WorkerAnnouncement], int]:
        """Return all announcements with lease expiries, and the store's time in ms.

        Raises StoreUnavailableError also where the server answers and refuses to be written to:
        no worker can renew there.
        """

    def queues(self) -> list[str]:
        """Return the names of queues that ever took a task."""

    def reclaim(self, worker: str, budget: int, counted: bool, batch: int, spread: int = 0) -> int:
        """Return or bury a lapsed worker's deliveries; those lost before over ``spread`` ms."""

    def reclaim_orphans(self, queue: str, age: int, batch: int) -> int:
        """Return unread exec entries of a queue without workers, older than ``age`` ms."""


class WorkerStore(Protocol):
    """What a worker needs."""

    def renew(self, announcement: WorkerAnnouncement, lease: int) -> RenewReply:
        """Extend the worker's lease by ``lease`` ms and publish what it offers."""

    def withdraw(self, worker: str) -> None:
        """Forget a cleanly stopped worker; its unsettled deliveries are returned uncounted."""

    def read(self, worker: str, rooms: Mapping[str, int], timeout: int) -> list[Delivery]:
        """Read up to ``rooms[queue]`` deliveries per queue, blocking up to ``timeout`` ms."""

    def read_obituaries(self, worker: str, queues: Sequence[str]) -> list[Obituary]:
        """Read obituaries of the queues, without blocking."""

    def complete(self, worker: str, items: Sequence[Settlement]) -> list[bool]:
        """Settle deliveries; ``False`` marks a stale token, which changed nothing."""

    def give_back(self, items: Sequence[Return], budget: int) -> list[bool]:
        """Return deliveries to pending at their rank, already paid; ``False`` = stale token."""

    def bury(self, worker: str, token: Token, reason: str) -> bool:
        """Move a delivery to the dead-letter stream with payload, reason, attempts and token."""

    def close_obituaries(self, items: Sequence[Obituary]) -> None:
        """Forget obituaries that have been written, and their payloads."""


class Store(ProducerStore, LeaderStore, WorkerStore, StoppingStore, AccountsStore, Protocol):
    """All of the above."""
