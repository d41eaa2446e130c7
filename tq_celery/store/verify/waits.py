"""How long each task waited in its queue, as far as the records tell.

A task waits from its admission to its dispatch, or to its removal, or still. Of one that came back
(given back, or recovered from a lost worker) only the last dispatch is known, and not when it
waited. Where tasks were read page by page, what happened after the look is known in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tq_celery.policies.contract import Task
from tq_celery.store.verify.look import Look
from tq_celery.store.verify.records import BEGINNING, EntryId, Settled, entry_id
from tq_celery.store.verify.tasks import Placed

__all__ = ["Wait", "settled_by", "waits_of"]

FOREVER = float("inf")


class Wait(NamedTuple):
    """One task: ``exec`` is its dispatch (:data:`BEGINNING` for none), ``end`` the ms it waited to.

    ``end`` is infinite while it waits. ``known`` is false for one that came back.
    """

    queue: str
    tenant: bytes
    name: str
    submitted: int
    admitted: int
    exec: EntryId
    end: float
    known: bool
    task: Task


def waits_of(settled: Iterable[Settled], placed: Iterable[Placed]) -> Iterator[Wait]:
    """Yield every task that was admitted."""
    for each in settled:
        if each.admitted:
            end = each.exec[0] if each.exec != BEGINNING else each.at[0]
            task = Task(each.arrived, each.cost, each.priority, each.deadline)
            yield Wait(
                each.queue, each.tenant, each.name, each.submitted, each.admitted, each.exec,
                end, not each.redelivered, task,
            )  # fmt: skip
    for one in placed:
        record = one.record
        if record.admitted and one.place in ("pending", "outdated", "running"):
            running = one.place == "running"
            entry = entry_id(one.member) if running else BEGINNING
            task = Task(record.ms, record.cost, record.priority, record.deadline)
            yield Wait(
                one.queue, one.tenant, one.name, record.submitted, record.admitted, entry,
                entry[0] if running else FOREVER, not record.paid, task,
            )  # fmt: skip


def settled_by(waits: Sequence[Wait], look: Look, *words: str) -> float:
    """Return the ms from which the rules of now held for whatever waited.

    After a change that ranks anew, tasks that had been admitted before it compete when they are
    reached: until the last of them is gone, order says nothing.
    """
    changed = max((look.changes.get(word, 0) for word in words), default=0)
    if not changed:
        return 0
    return max([changed, *(each.end for each in waits if each.admitted <= changed)])
