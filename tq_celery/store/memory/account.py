"""The leader's accounts: the time of the slots, and the tenants' records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tq_celery.store.accounts_contract import Accounts, Change, Served
from tq_celery.store.memory.lead import Lead

__all__ = ["Account"]


class Account(Lead):
    """What the leader looks at and writes every few seconds."""

    def accounts(self) -> Accounts:
        """Return the accounts as they are."""
        ns = self.ns
        holding = Counter(each.worker for exec_ in ns.exec.values() for each in exec_.values())
        alive = [
            (worker, ns.announcements[worker].slots)
            for worker, expires in ns.leases.items()
            if expires > ns.now
        ]
        return Accounts(
            ns.now,
            sum(slots for _, slots in alive),
            sum(min(slots, holding[worker]) for worker, slots in alive),
            dict(ns.service),
            {tenant for tenant in ns.service if ns.live_of[tenant]},
            {*ns.weights, *ns.caps, *ns.paused_tenants},
        )

    def account(
        self, epoch: int, slots: int, busy: int, longest: int, changes: Mapping[bytes, Change]
    ) -> int:
        """Count the time of the slots, and change records."""
        self._fence(epoch)
        ns = self.ns
        passed = max(0, min(ns.now - (ns.accounted or ns.now), longest))
        ns.accounted = ns.now
        ns.count("slot_ms", "offered", passed * slots)
        ns.count("slot_ms", "busy", passed * busy)
        for tenant, change in changes.items():
            if change != "forgotten":
                known = ns.service.get(tenant, Served(last=ns.now))
                ns.service[tenant] = known._replace(shown=int(change == "shown"))
            elif not ns.live_of[tenant]:
                ns.service.pop(tenant, None)
        return passed
