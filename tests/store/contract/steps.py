"""Small steps that every test of a store takes: submit, admit under a policy, drain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tq_celery.policies.contract import Policy, Task
from tq_celery.policies.registry import make_policy, stored_ageing
from tq_celery.states import Outcome
from tq_celery.store.contract import (
    MAX_BATCH,
    Admission,
    Limits,
    Promotion,
    Receipt,
    Settlement,
    Submission,
    Token,
    WorkerAnnouncement,
)
from tq_celery.store.record import ARRIVAL, TaskKey, arrival, unpack_record

__all__ = [
    "NO_LIMITS",
    "admit_all",
    "announce",
    "complete",
    "dispatch_all",
    "digest",
    "policy_of",
    "promote_all",
    "rerank_all",
    "stamped",
    "submit",
    "task",
]

NO_LIMITS = Limits()


def digest(name: str) -> bytes:
    """Return sixteen bytes that stand for a message."""
    return name.encode().ljust(16, b".")[:16]


def task(name: str, tenant: str | bytes = b"t", queue: str = "q", **options: Any) -> Submission:
    """Return a submission of the task called ``name``."""
    raw = tenant.encode() if isinstance(tenant, str) else tenant
    key = options.pop("key", TaskKey(name))
    options.setdefault("digest", digest(name))
    return Submission(key, queue, raw, b"payload of " + name.encode(), **options)


def submit(store: Any, *tasks: Submission, limits: Limits = NO_LIMITS) -> list[Receipt]:
    """Submit one by one."""
    return [store.submit(each, limits) for each in tasks]


def policy_of(store: Any) -> Policy:
    """Return the policy that the namespace runs."""
    config = store.config()
    return make_policy(config["policy"], config["order_within"], stored_ageing(config))


def rank(policy: Policy, record: bytes) -> float:
    """Return the rank of a record."""
    task = unpack_record(record)
    return policy.rank(Task(task.ms, task.cost, task.priority, task.deadline))


def stamped(entry: bytes, record: bytes) -> bytes:
    """Return the record with the arrival of its ingress entry."""
    return arrival(entry) + record[ARRIVAL.size :]


def admit_all(store: Any, epoch: int = 1, arrivals: Sequence[tuple[int, int]] = ()) -> int:
    """Admit what is in ingress; ``arrivals`` replace the entries' own (ms, sequence)."""
    policy, moved = policy_of(store), 0
    generation = int(store.config()["generation"])
    given = iter(arrivals)
    while found := store.read_ingress(b"", MAX_BATCH, 0).arrivals:
        items = []
        for each in found:
            mine = next(given, None)
            record = (
                ARRIVAL.pack(*mine) + each.record[ARRIVAL.size :]
                if mine
                else stamped(each.entry, each.record)
            )
            items.append(
                Admission(each.entry, each.queue, each.tenant, rank(policy, record), record)
            )
        moved += store.admit(epoch, generation, items)
    return moved


def promote_all(
    store: Any, epoch: int = 1, arrive: Callable[[bytes], bytes] = lambda record: record
) -> int:
    """Promote what is due; ``arrive`` may give a record another arrival."""
    policy, moved = policy_of(store), 0
    generation = int(store.config()["generation"])
    while found := store.due(MAX_BATCH)[0]:
        records = [arrive(each.record) for each in found]
        items = [
            Promotion(each.member, each.queue, each.tenant, rank(policy, record), record)
            for each, record in zip(found, records, strict=True)
        ]
        moved += store.promote(epoch, generation, items)
    return moved


def rerank_all(store: Any, epoch: int = 1, batch: int = 3) -> int:
    """Rank anew what carries old ranks; returns the number of calls."""
    policy, calls = policy_of(store), 0
    generation = int(store.config()["generation"])
    while found := store.stale(batch):
        for each in found:
            ranks = [(member, rank(policy, member)) for member, _ in each.members]
            assert store.rerank(epoch, generation, each.queue, each.tenant, ranks) >= 0
            calls += 1
            assert calls < 10_000, f"re-ranking does not end: {each}"
    return calls


def announce(worker: str, *queues: str, slots: int = 4) -> WorkerAnnouncement:
    """Return a worker's announcement."""
    return WorkerAnnouncement(worker, queues, slots, 0)


def complete(
    token: Token, outcome: Outcome = Outcome.COMPLETED, ran: float | None = 1.0
) -> Settlement:
    """Return a settlement of a delivery that ran for some ms; None: it never started."""
    started = 0.0 if ran is None else 50.0
    return Settlement(token, outcome, digest("settled"), started, 50.0 + (ran or 0.0))


def dispatch_all(store: Any, *queues: str, epoch: int = 1, batch: int = MAX_BATCH) -> int:
    """Dispatch everything that may run."""
    moved = 0
    while count := store.dispatch(epoch, queues or ("q",), 10**9, batch).count:
        moved += count
    return moved
