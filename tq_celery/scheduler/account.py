"""The leader's accounts: which tenants have series of their own, and the time of the slots.

What tenants are served is kept by the scripts that settle their tasks, of any tenant, so that
nothing depends on this loop being in time. It only says of whom a scrape shows it, and lets go of
what nobody will ask for.

The time of the slots is what this loop sees every :data:`PERIOD`, times the time since it was last
seen by whichever leader. Of a time without a leader no more than :data:`LONGEST` counts.
"""

from __future__ import annotations

from itertools import islice

from tq_celery.scheduler.leader import Leadership
from tq_celery.scheduler.loop import Quiet
from tq_celery.scheduler.stats import SchedulerStats
from tq_celery.scheduler.tenant_series import record_changes
from tq_celery.scheduler.term import TermLoop
from tq_celery.store.accounts_contract import AccountsStore
from tq_celery.store.contract import MAX_BATCH

__all__ = ["LONGEST", "PERIOD", "Account"]

#: Seconds between two looks.
PERIOD = 5.0
#: Most seconds since the last look that count.
LONGEST = 2 * PERIOD


class Account(TermLoop):
    """See the module. ``tenants`` have series of their own beside those with settings."""

    name = "account"

    def __init__(
        self,
        store: AccountsStore,
        leadership: Leadership,
        stats: SchedulerStats,
        quiet: Quiet,
        *,
        tenants: int,
    ) -> None:
        super().__init__(leadership, stats.loop(self.name), quiet)
        self._store = store
        self._tenants = tenants

    def begin(self, epoch: int) -> None:
        """Nothing is kept from one look to the next."""

    def step(self, epoch: int) -> float:
        """Look at the accounts, and write what follows; a batch of records at a time."""
        accounts = self._store.accounts()
        changes = record_changes(accounts, self._tenants)
        if not self.leads(epoch):
            return 0.0
        self._store.account(
            epoch, accounts.slots, accounts.busy, round(LONGEST * 1000),
            dict(islice(changes.items(), MAX_BATCH)),
        )  # fmt: skip
        return 0.0 if len(changes) > MAX_BATCH else PERIOD
