"""When a pending task's turn comes, as things stand: how many go before it, and who competes.

Nothing here decides. The order is read from what dispatch goes by: the stored ranks, or under a
fair policy each tenant's start and the costs of its tasks. It holds for the moment at which nothing
else arrives, returns or changes its weight; the reads are several, so it is not a snapshot.

What competes with a task is what waits in the queues that the same workers consume, unless a queue
is paused or a tenant held back. Of two tasks with equal ranks or tags the earlier arrival goes
first, as in the store's own order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tq_celery.policies.wfq import finish_tag
from tq_celery.store.base import chunks
from tq_celery.store.contract import MAX_BATCH
from tq_celery.store.finding import RedisFinding
from tq_celery.store.record import ARRIVAL, COST, PAID

__all__ = ["MOST_COUNTED", "Turn", "Turns"]

#: Tasks that are read to count those before one; a greater number is not known exactly.
MOST_COUNTED = 100_000
#: Heads of one queue that are looked at.
_MOST_HEADS = 10_000
#: A cost as a record holds it.
_COST = struct.Struct(">d")

#: What the store compares: score, then arrival and tenant.
Place = tuple[float, bytes]


class Turn(NamedTuple):
    """How many tasks go ``before`` one; ``own`` of them are of its tenant.

    ``at_least`` tells that counting was ended. ``tenants`` compete, the task's own included, with
    the sum ``weights``; ``weight`` is the own one.
    """

    before: int
    own: int
    at_least: bool
    tenants: int
    weight: float
    weights: float


@dataclass(slots=True)
class _Tenant:
    """A competing tenant: the places of its heads by queue, and what a fair policy knows of it."""

    heads: dict[str, Place]
    weight: float = 1.0
    start: float = 0.0


class Turns(RedisFinding):
    """Counts what goes before a task."""

    def turn(
        self, queue: str, tenant: bytes, member: bytes, score: float, fair: bool
    ) -> Turn | None:
        """Return the turn of the pending task ``member`` of a tenant, whose rank is ``score``.

        None while the tenant does not compete, because it is paused or at its cap.
        """
        groups = self._group(queue)
        rivals = self._tenants_of(groups, self._open(groups, queue))
        ours = rivals.get(tenant)
        if ours is None or queue not in ours.heads:
            return None
        self._weigh(groups, rivals, fair)
        if fair:
            before, own, more = self._fair(rivals, tenant, queue, member)
        else:
            mine = (score, member[: ARRIVAL.size] + tenant)
            before, own, more = self._ranked(rivals, tenant, queue, member, mine)
        weights = sum(each.weight for each in rivals.values())
        return Turn(before, own, more, len(rivals), ours.weight, weights)

    # -- who competes --------------------------------------------------------------------------

    def _group(self, queue: str) -> tuple[str, list[str]]:
        """Return the group of a queue, and the queues in it."""
        with self._reading():
            raw: Any = self.client.hgetall(self.keys.name("groups"))
        groups = {key.decode(): value.decode() for key, value in raw.items()}
        group = groups.get(queue, queue)
        return group, sorted({queue, *(q for q, of in groups.items() if of == group)})

    def _open(self, group: tuple[str, list[str]], queue: str) -> list[str]:
        """Return the queues of a group that are not paused, ``queue`` in any case."""
        with self._reading():
            paused: Any = self.client.smembers(self.keys.name("paused_queues"))
        return [each for each in group[1] if each == queue or each.encode() not in paused]

    def _tenants_of(self, group: tuple[str, list[str]], queues: list[str]) -> dict[bytes, _Tenant]:
        found: dict[bytes, _Tenant] = {}
        commands = [
            ("ZRANGE", self.keys.of_queue("heads", queue), 0, _MOST_HEADS - 1, "WITHSCORES")
            for queue in queues
        ]
        for queue, heads in zip(queues, self._ask(commands), strict=True):
            for member, score in zip(heads[::2], heads[1::2], strict=True):
                each = found.setdefault(member[ARRIVAL.size :], _Tenant({}))
                each.heads[queue] = (float(score), member)
        return found

    def _weigh(
        self, group: tuple[str, list[str]], rivals: Mapping[bytes, _Tenant], fair: bool
    ) -> None:
        weights, starts = self.keys.name("weights"), self.keys.of_queue("starts", group[0])
        for part in chunks(list(rivals)):
            asked = [("HMGET", weights, *part)] + ([("HMGET", starts, *part)] if fair else [])
            replies = self._ask(asked)
            for tenant, weight in zip(part, replies[0], strict=True):
                rivals[tenant].weight = float(weight or 1)
            for tenant, start in zip(part, replies[1] if fair else (), strict=False):
                rivals[tenant].start = float(start or 0)

    # -- by stored ranks -----------------------------------------------------------------------

    def _ranked(
        self, rivals: Mapping[bytes, _Tenant], tenant: bytes, queue: str, member: bytes, mine: Place
    ) -> tuple[int, int, bool]:
        own_set = self.keys.of_tenant("pending", queue, tenant)
        (rank,) = self._ask([("ZRANK", own_set, member)])
        before = own = int(rank or 0)
        ahead = [
            (each, of)
            for each, rival in rivals.items()
            for of, head in rival.heads.items()
            if head < mine and (each, of) != (tenant, queue)
        ]
        more = False
        for part in chunks(ahead):
            names = [self.keys.of_tenant("pending", of, each) for each, of in part]
            counts = self._ask([("ZCOUNT", name, "-inf", f"({mine[0]:.17g}") for name in names])
            for (each, _), name, count in zip(part, names, counts, strict=True):
                ties, ended = self._ties(name, each, mine, MOST_COUNTED - before)
                before += count + ties
                own += count + ties if each == tenant else 0
                more = more or ended
        return before, own, more

    def _ties(self, name: bytes, tenant: bytes, mine: Place, most: int) -> tuple[int, bool]:
        """Count the tasks of the same rank that arrived earlier."""
        score, count = f"{mine[0]:.17g}", 0
        while count < most:
            bound = ("BYSCORE", "LIMIT", count, MAX_BATCH)
            (page,) = self._ask([("ZRANGE", name, score, score, *bound)])
            for each in page:
                if each[: ARRIVAL.size] + tenant > mine[1]:
                    return count, False
                count += 1
            if len(page) < MAX_BATCH:
                return count, False
        return count, True

    # -- by fair tags --------------------------------------------------------------------------

    def _fair(
        self, rivals: Mapping[bytes, _Tenant], tenant: bytes, queue: str, member: bytes
    ) -> tuple[int, int, bool]:
        own, mine = 0, None
        for place, of, each in self._in_turn(tenant, rivals[tenant]):
            if (of, each) == (queue, member):
                mine = place
                break
            own += 1
            if own >= MOST_COUNTED:
                return own, own, True
        if mine is None:  # it moved on
            return own, own, False
        before = own
        for other, rival in rivals.items():
            if other == tenant or min(rival.heads.values()) > mine:
                continue
            for place, _, _ in self._in_turn(other, rival):
                if place > mine:
                    break
                before += 1
                if before >= MOST_COUNTED:
                    return before, own, True
        return before, own, False

    def _in_turn(self, tenant: bytes, rival: _Tenant) -> Iterator[tuple[Place, str, bytes]]:
        """Yield a tenant's tasks as they will be dispatched: place, queue and member."""
        waiting = {queue: self._pending(queue, tenant) for queue in rival.heads}
        firsts = {queue: next(tasks, None) for queue, tasks in waiting.items()}
        start = rival.start
        while True:
            heads = [
                ((_finish(start, first, rival.weight), first[: ARRIVAL.size] + tenant), queue)
                for queue, first in firsts.items()
                if first is not None
            ]
            if not heads:
                return
            place, queue = min(heads)
            member = firsts[queue]
            assert member is not None
            yield place, queue, member
            start, firsts[queue] = place[0], next(waiting[queue], None)

    def _pending(self, queue: str, tenant: bytes) -> Iterator[bytes]:
        name, start = self.keys.of_tenant("pending", queue, tenant), 0
        while True:
            (page,) = self._ask([("ZRANGE", name, start, start + MAX_BATCH - 1)])
            yield from page
            if len(page) < MAX_BATCH:
                return
            start += MAX_BATCH


def _finish(start: float, member: bytes, weight: float) -> float:
    """Return the tag of a task as its tenant's head."""
    cost: float = _COST.unpack(member[COST])[0]
    return finish_tag(start, cost, weight, member[PAID] == 1)
