"""Changes of what ranks mean: a new policy, or queues that now share workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tq_celery.errors import StoreError
from tq_celery.policies.registry import ageing_text, make_policy
from tq_celery.store.contract import StaleTenant
from tq_celery.store.memory.lead import Lead

__all__ = ["Regroup"]


class Regroup(Lead):
    """Re-ranking after a switch, in bounded batches, and the groups of queues."""

    def config(self) -> dict[str, str]:
        """Return a copy of the stored configuration."""
        return dict(self.ns.config)

    def queues(self) -> list[str]:
        """Return the queues that ever took a task."""
        return sorted(self.ns.queues)

    def set_policy(
        self, name: str, order_within: str = "arrival", ageing: float | None = None
    ) -> int:
        """Start a new generation of ranks; StoreError while an earlier one is unfinished."""
        ns = self.ns
        policy = make_policy(name, order_within, ageing)
        if ns.outdated:
            raise StoreError("set_policy", "an earlier policy switch is still being ranked anew")
        ns.outdated, ns.pending = ns.pending, {}
        for structure in (ns.heads, ns.gated, ns.starts):
            structure.clear()
        generation = self.generation + 1
        ns.config.update(
            policy=name,
            between=policy.between,
            order_within=order_within,
            ageing=ageing_text(ageing),
            generation=str(generation),
        )
        ns.wake("config")
        return generation

    def stale(self, count: int) -> list[StaleTenant]:
        """Return tenants with tasks of an older generation, and up to ``count`` of these."""
        found: list[StaleTenant] = []
        for (queue, tenant), tasks in self.ns.outdated.items():
            if count <= 0:
                break
            members = list(tasks)[:count]
            count -= len(members)
            found.append(StaleTenant(queue, tenant, members))
        return found

    def rerank(
        self,
        epoch: int,
        generation: int,
        queue: str,
        tenant: bytes,
        ranks: Sequence[tuple[bytes, float]],
    ) -> int:
        """Let tasks compete again under new ranks; returns how many of the tenant's are left."""
        self._fence(epoch)
        if generation != self.generation:
            return -1
        tasks = self.ns.outdated.get((queue, tenant))
        if tasks is None:
            return 0
        for record, rank in ranks:
            if not tasks.remove(record):
                continue
            if self.ns.config.get("between") == "none":
                self._deliver(queue, tenant, record, rank, epoch)
                self.ns.move(queue, "pending", "dispatched")
            else:
                self.index.pend(queue, tenant, record, rank)
        if not tasks:
            del self.ns.outdated[queue, tenant]
        return len(tasks)

    def regroup(self, epoch: int, groups: Mapping[str, str]) -> int:
        """Record groups; tenants of the changed ones start again, at the later of both times."""
        self._fence(epoch)
        ns, index = self.ns, self.index
        changes = {
            queue: group for queue, group in sorted(groups.items()) if index.group(queue) != group
        }
        if not changes:
            return 0
        if ns.outdated:
            return -1
        affected = {index.group(queue) for queue in changes} | set(changes.values())
        touched = {queue for queue in ns.queues if index.group(queue) in affected} | set(changes)
        for queue, group in changes.items():
            ns.virtual[group] = max(ns.virtual[group], ns.virtual[index.group(queue)])
        ns.groups.update(groups)
        for group in affected:
            ns.starts.pop(group, None)
        if index.fair:
            for queue in touched:
                for tenant, _ in list(ns.heads[queue]):
                    index.place(queue, tenant)
        return len(changes)
