"""The leader's part: election, admission, promotion and dispatch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from tq_celery.errors import FencedError
from tq_celery.store.announcement import LAST_EPOCH
from tq_celery.store.contract import (
    Admission,
    Arrival,
    Dispatched,
    DueTask,
    Grant,
    Ingress,
    Promotion,
)
from tq_celery.store.due import read_due
from tq_celery.store.memory.base import Base
from tq_celery.store.memory.state import DeadLetter
from tq_celery.store.record import replace_admitted

__all__ = ["Lead"]

#: Results looked at: a task of an older epoch may well be the last to end.
WITNESSES = 64


class Lead(Base):
    """Everything that only a leader does. Blocking calls return at once: time stands still."""

    def elect(self, owner: str, ttl: int, floor: int = 0) -> Grant:
        """Grant a free lease, with an epoch above every epoch that left a trace."""
        ns = self.ns
        if ns.leader is not None and ns.leader[0] != owner and ns.leader[1] > ns.now:
            if ns.epoch < floor <= LAST_EPOCH:
                ns.epoch = floor  # the holder's next renewal fails
            return Grant(0, ns.leader[1] - ns.now, ns.epoch, ns.now)
        ns.epoch = max(ns.epoch, ns.fence, *self._witnesses(floor)) + 1
        ns.leader = (owner, ns.now + ttl)
        return Grant(ns.epoch, ttl, ns.epoch, ns.now)

    def _witnesses(self, floor: int) -> list[int]:
        """Return the epochs that were in use by the account of others than the two counters."""
        ns = self.ns
        told = [floor, *(each.epoch for each in ns.announcements.values())]
        told += [each.settlement.token.epoch for each in ns.results[-WITNESSES:]]
        told += [ns.exec[queue][next(reversed(ns.exec[queue]))].epoch
                 for queue in ns.queues if ns.exec[queue]]  # fmt: skip
        return [epoch for epoch in told if epoch <= LAST_EPOCH]

    def extend(self, owner: str, epoch: int, ttl: int) -> bool:
        """Renew the lease if it is still this grant's."""
        if not self._holds(owner, epoch):
            return False
        self.ns.leader = (owner, self.ns.now + ttl)
        return True

    def resign(self, owner: str, epoch: int) -> bool:
        """Release the lease if it is still this grant's."""
        if not self._holds(owner, epoch):
            return False
        self.ns.leader = None
        return True

    def await_succession(self, timeout: int) -> bool:
        """Return at once: it may have been."""
        return True

    def read_ingress(self, cursor: bytes, count: int, timeout: int) -> Ingress:
        """Return arrivals from the front, and what woke the leader since the last call."""
        arrivals = [
            Arrival(
                entry,
                each.queue,
                each.tenant,
                each.record,
                each.fields,
                "unreadable ingress entry" if each.fields else "",
            )
            for entry, each in islice(self.ns.ingress.items(), count)
        ]
        wakes = frozenset(self.ns.wakes)
        self.ns.wakes.clear()
        return Ingress(arrivals, wakes, cursor)

    def admit(self, epoch: int, generation: int, items: Sequence[Admission]) -> int:
        """Move ranked arrivals to pending; those already gone are repeats and are left out."""
        self._fence(epoch)
        if generation != self.generation:
            return -1
        moved = 0
        for item in items:
            if self.ns.ingress.pop(item.entry, None) is not None:
                self._rank_in("submitted", item, epoch)
                moved += 1
        return moved

    def bury_ingress(self, epoch: int, items: Sequence[Arrival]) -> int:
        """Move unreadable entries to the dead letters, raw."""
        self._fence(epoch)
        moved = 0
        for item in items:
            entry = self.ns.ingress.pop(item.entry, None)
            if entry is not None:
                self._add_dead(
                    DeadLetter("", b"", b"", None, b"", item.reason, fields=entry.fields)
                )
                self.ns.count("unreadable", "ingress")
                moved += 1
        return moved

    def due(self, count: int) -> tuple[list[DueTask], int | None]:
        """Return tasks whose time has come, and ms until the next one's."""
        ready: list[DueTask] = []
        for member, at in self.ns.delayed:
            if at > self.ns.now:
                return ready, at - self.ns.now
            if len(ready) < count:
                ready.append(read_due(member, at))
        return ready, None

    def bury_delayed(self, epoch: int, items: Sequence[DueTask]) -> int:
        """Move unreadable members to the dead letters, raw."""
        self._fence(epoch)
        moved = 0
        for item in items:
            if self.ns.delayed.remove(item.member):
                fields = {b"member": item.member}
                self._add_dead(DeadLetter("", b"", b"", None, b"", item.reason, fields=fields))
                self.ns.count("unreadable", "delayed")
                moved += 1
        return moved

    def promote(self, epoch: int, generation: int, items: Sequence[Promotion]) -> int:
        """Move ranked due tasks to pending."""
        self._fence(epoch)
        if generation != self.generation:
            return -1
        moved = 0
        for item in items:
            if self.ns.delayed.remove(item.member):
                self._rank_in("delayed", item, epoch)
                moved += 1
        return moved

    def dispatch(self, epoch: int, queues: Sequence[str], capacity: int, batch: int) -> Dispatched:
        """Move best heads to exec; the lowest score of all queues first, then the first arrival."""
        self._fence(epoch)
        ns, index = self.ns, self.index
        asked = [queue for queue in queues if queue not in ns.paused_queues]
        credit = capacity - sum(ns.counters["dispatched", queue] for queue in queues)
        total = ns.config.get("max_running")
        if total:
            credit = min(credit, int(total) - sum(ns.running_of.values()))
        moved = 0
        while moved < min(credit, batch):
            heads = [(*head, queue) for queue in asked if (head := ns.heads[queue].first())]
            if not heads:
                break
            tenant, (score, _), queue = min(heads, key=lambda head: (head[1], head[0]))
            if not index.allowed(tenant):
                index.gate(queue, tenant)
                continue
            record, rank = index.take(queue, tenant)
            ns.heads[queue].remove(tenant)
            self._deliver(queue, tenant, record, rank, epoch)
            ns.move(queue, "pending", "dispatched")
            index.charge(queue, tenant, score)
            moved += 1
        if moved:
            self._note_capacity(queues, asked[0], capacity)
        starved = moved >= credit and any(ns.heads[queue] for queue in asked)
        ns.starved = ns.starved or starved
        counts = {queue: ns.counters["dispatched", queue] for queue in queues}
        return Dispatched(moved, starved, counts)

    def _note_capacity(self, queues: Sequence[str], first: str, capacity: int) -> None:
        """Keep the greatest capacity that the group of queues was ever given."""
        counters, index = self.ns.counters, self.index
        others = set(index.peers(first)) - set(queues)
        capacity += sum(counters["dispatched", queue] for queue in others)
        noted = ("capacity", index.group(first))
        counters[noted] = max(counters[noted], capacity)

    def _holds(self, owner: str, epoch: int) -> bool:
        leader = self.ns.leader
        return (
            leader is not None
            and leader[0] == owner
            and leader[1] > self.ns.now
            and self.ns.epoch == epoch
        )

    def _fence(self, epoch: int) -> None:
        """Refuse a superseded epoch before anything is written, and remember a newer one."""
        if epoch < self.ns.fence:
            raise FencedError(epoch, self.ns.fence)
        self.ns.fence = epoch

    def _rank_in(self, source: str, item: Admission | Promotion, epoch: int) -> None:
        """Move one ranked task to pending, or straight to exec when nothing is scheduled."""
        record = replace_admitted(item.record, self.ns.now)
        if self.ns.config.get("between") == "none":
            self._deliver(item.queue, item.tenant, record, item.score, epoch)
            self.ns.move(item.queue, source, "dispatched")
        else:
            self.index.pend(item.queue, item.tenant, record, item.score)
            self.ns.move(item.queue, source, "pending")
        self.ns.count("promoted" if source == "delayed" else "admitted", item.queue)
