"""No task is dispatched while a better-ranked one of its queue waits.

Under ``fifo``, ``priority`` and ``edf`` that holds for a whole queue, under ``wfq`` for the tasks
of one tenant in a queue. Tasks of tenants that have a cap or are paused may be overtaken.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from tq_celery.policies.contract import Policy
from tq_celery.store.verify.contract import Violation
from tq_celery.store.verify.look import Look
from tq_celery.store.verify.records import BEGINNING
from tq_celery.store.verify.waits import Wait, settled_by

__all__ = ["overtaken"]


def overtaken(look: Look, waits: Sequence[Wait], policy: Policy, clock: int) -> Iterator[Violation]:
    """Yield tasks that waited while a worse-ranked one was dispatched.

    ``clock`` is by how many ms the time of an admission may be off.
    """
    since = max(settled_by(waits, look, "policy"), look.changes.get("pauses", 0))
    since = max(since, look.changes.get("caps", 0))
    parts: defaultdict[tuple[str, bytes], list[Wait]] = defaultdict(list)
    for each in waits:
        parts[each.queue, each.tenant if policy.between == "fair" else b""].append(each)
    for _, part in sorted(parts.items()):
        yield from _overtaken(look, part, policy, since, clock)


def _overtaken(
    look: Look, waits: Iterable[Wait], policy: Policy, since: float, clock: int
) -> Iterator[Violation]:
    held = look.caps.keys() | look.paused_tenants
    ranked = [(policy.rank(each.task), each) for each in waits]
    coming = sorted(
        ((wait.admitted + clock, rank, wait.name, wait) for rank, wait in ranked
         if wait.known and wait.tenant not in held), reverse=True,
    )  # fmt: skip
    going = sorted((wait.exec, rank, wait) for rank, wait in ranked if wait.exec != BEGINNING)
    waiting: list[tuple[float, str, Wait]] = []
    told: set[str] = set()
    for entry, rank, wait in going:
        while coming and coming[-1][0] < entry[0]:
            _, better, name, other = coming.pop()
            heapq.heappush(waiting, (better, name, other))
        while waiting and waiting[0][2].end <= entry[0]:
            heapq.heappop(waiting)
        if waiting and waiting[0][0] < rank and since < entry[0] < look.at:
            name = waiting[0][1]
            if name not in told:
                told.add(name)
                yield Violation(
                    "service", name, f"waited on {wait.queue} when {wait.name} was dispatched"
                )
