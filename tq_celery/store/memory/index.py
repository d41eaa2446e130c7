"""The two-level index of waiting tasks: a tenant's own order, and the heads of all tenants.

A tenant with work waiting in a queue is either among the queue's ``heads`` (may be served) or in
``gated`` (may not). Tasks ranked by an earlier policy wait apart, in ``outdated``. Under fair
sharing a tenant among the heads of a group has one ``start`` in that group, and each of its heads
there is scored from it.
"""

from __future__ import annotations

from tq_celery.policies.wfq import finish_tag
from tq_celery.store.memory.ranked import Ranked
from tq_celery.store.memory.state import Namespace
from tq_celery.store.record import ARRIVAL, unpack_record

__all__ = ["Index"]


class Index:
    """Keeps heads and fair tags of ``namespace`` right while tasks come and go."""

    def __init__(self, namespace: Namespace) -> None:
        self.ns = namespace

    @property
    def fair(self) -> bool:
        """Whether tenants share by tags, rather than by the ranks of their heads."""
        return self.ns.config.get("between") == "fair"

    def group(self, queue: str) -> str:
        """Return the group in which tenants of ``queue`` compete."""
        return self.ns.groups.get(queue, queue)

    def peers(self, queue: str) -> list[str]:
        """Return the queues of the group of ``queue``, itself included."""
        group = self.group(queue)
        shared = [other for other, its_group in self.ns.groups.items() if its_group == group]
        # A queue that was never grouped is in the group of its own name.
        return shared if group in self.ns.groups else [*shared, group]

    def allowed(self, tenant: bytes) -> bool:
        """Whether neither a pause nor a cap keeps the tenant from being served."""
        if tenant in self.ns.paused_tenants:
            return False
        cap = self.ns.caps.get(tenant)
        return cap is None or self.ns.running_of[tenant] < cap

    def pend(self, queue: str, tenant: bytes, record: bytes, rank: float) -> None:
        """Put a task among the tenant's waiting ones; its head is renewed only if it changed."""
        waiting = self.ns.pending.setdefault((queue, tenant), Ranked())
        before = waiting.first()
        waiting.add(record, rank)
        if waiting.first() != before:
            self.place(queue, tenant)

    def take(self, queue: str, tenant: bytes) -> tuple[bytes, float]:
        """Remove and return the tenant's first task and its rank."""
        waiting = self.ns.pending[queue, tenant]
        first = waiting.first()
        assert first is not None, "a tenant without work is not among the heads"
        waiting.remove(first[0])
        if not waiting:
            del self.ns.pending[queue, tenant]
        return first

    def place(self, queue: str, tenant: bytes) -> None:
        """Put the tenant's first task among the heads, or the tenant among the gated.

        A tenant that was not backlogged in its group starts at V; one that was keeps its start.
        """
        if not self.allowed(tenant):
            self.gate(queue, tenant)
            return
        if self.fair:
            group = self.group(queue)
            self.ns.starts[group].setdefault(tenant, self.ns.virtual[group])
        self.score(queue, tenant)

    def score(self, queue: str, tenant: bytes) -> None:
        """Give the tenant's head the score that its first task has now."""
        first = self.ns.pending[queue, tenant].first()
        assert first is not None
        record, score = first
        if self.fair:
            task = unpack_record(record)
            start = self.ns.starts[self.group(queue)][tenant]
            weight = self.ns.weights.get(tenant, 1.0)
            score = finish_tag(start, task.cost, weight, bool(task.paid))
        # Equal scores run in order of arrival, which is how a record begins.
        self.ns.heads[queue].add(tenant, (score, record[: ARRIVAL.size]))

    def charge(self, queue: str, tenant: bytes, finish: float) -> None:
        """Account for a dispatch of the tenant: its start moves to ``finish``, V to no less."""
        waits = [peer for peer in self.peers(queue) if (peer, tenant) in self.ns.pending]
        if self.fair:
            group = self.group(queue)
            self.ns.virtual[group] = max(self.ns.virtual[group], finish)
            if waits:
                self.ns.starts[group][tenant] = finish
            else:
                self.ns.starts[group].pop(tenant, None)
        for peer in waits:
            if peer == queue or (self.fair and tenant in self.ns.heads[peer]):
                self.score(peer, tenant)

    def renew(self, queue: str, tenant: bytes, old: bytes | None) -> None:
        """Renew what stands for a tenant after tasks were removed; ``old`` was its first one.

        It keeps its start, but no more than the new head's own cost before V: a tenant could
        otherwise let a costly task wait, revoke it, and have all that V has moved at once.
        """
        ns = self.ns
        pending = ns.pending.get((queue, tenant))
        first = pending.first() if pending is not None else None
        if old is not None and tenant in ns.heads[queue] and (first is None or first[0] != old):
            ns.heads[queue].remove(tenant)
            group, peers = self.group(queue), self.peers(queue)
            starts, moved = ns.starts[group], False
            if self.fair and first is not None and tenant in starts:
                task = unpack_record(first[0])
                weight = ns.weights.get(tenant, 1.0)
                floor = ns.virtual[group] - finish_tag(0.0, task.cost, weight, bool(task.paid))
                moved = starts[tenant] < floor
                starts[tenant] = max(starts[tenant], floor)
            if first is not None:
                self.place(queue, tenant)
            for peer in peers if moved else ():
                if peer != queue and tenant in ns.heads[peer]:
                    self.place(peer, tenant)
            if not any((peer, tenant) in ns.pending for peer in peers):
                starts.pop(tenant, None)
        if first is None and (queue, tenant) not in ns.outdated:
            ns.gated[queue].discard(tenant)

    def gate(self, queue: str, tenant: bytes) -> None:
        """Hold a tenant back; it loses its start, so that it cannot save up service."""
        self.ns.heads[queue].remove(tenant)
        self.ns.gated[queue].add(tenant)
        self.ns.starts[self.group(queue)].pop(tenant, None)

    def forgive(self, queue: str) -> None:
        """Let tenants of a queue that was paused start at V, where their finish is before it."""
        if not self.fair:
            return
        group, ns = self.group(queue), self.ns
        now = ns.virtual[group]
        late = [tenant for tenant, (score, _) in ns.heads[queue] if score < now]
        for tenant in late:
            for peer in self.peers(queue):
                if tenant in ns.heads[peer]:
                    ns.starts[group][tenant] = now
                    self.place(peer, tenant)

    def release(self, tenant: bytes) -> bool:
        """Let a gated tenant compete again, at V, on every queue where it waits."""
        released = False
        for queue in sorted(self.ns.queues):
            if tenant in self.ns.gated[queue] and self.allowed(tenant):
                self.ns.gated[queue].discard(tenant)
                if (queue, tenant) in self.ns.pending:
                    self.place(queue, tenant)
                    released = True
        return released
