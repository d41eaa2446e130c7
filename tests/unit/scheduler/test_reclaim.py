"""Reclaim: only in unbroken contact, and charged only when no outage can be the reason."""

from __future__ import annotations

import pytest

from tests.unit.scheduler.support import Bench, Store
from tq_celery.errors import StoreUnavailableError
from tq_celery.scheduler.loop import Quiet
from tq_celery.scheduler.reclaim import Reclaim
from tq_celery.scheduler.stats import SchedulerStats
from tq_celery.store.record import unpack_record

#: Lease in s.
LEASE = 6.0


class Replica:
    """A replica's reclaim loop on a store in memory, with one clock for both."""

    def __init__(self) -> None:
        self.bench = Bench({"lease": LEASE})
        self.store: Store = self.bench.store
        self.at = 1000.0
        self.stats = SchedulerStats()
        self.loop = Reclaim(
            self.store, self.stats, Quiet(),
            lease=LEASE, budget=2, batch=10, clock=lambda: self.at,
        )  # fmt: skip

    def watch(self, seconds: float, renewing: str = "") -> None:
        """Let time pass in steps of half a second, looking at the leases after each."""
        for _ in range(round(seconds * 2)):
            self.at += 0.5
            self.store.now += 500
            if renewing:
                self.bench.worker(renewing, "q", slots=5, lease=round(LEASE * 1000))
            self.loop.attempt()

    def away(self, seconds: float) -> None:
        """The server does not answer for a while, and its clock runs on."""
        self.store.failures["workers"] = StoreUnavailableError("workers", "away")
        self.watch(seconds)
        self.store.failures.clear()

    def deliver(self, new: bool = True) -> None:
        """Hand one task to the worker: a new one, or the one that came back."""
        self.bench.worker("w", "q", slots=5, lease=round(LEASE * 1000))
        if new:
            self.bench.submit()
        self.bench.scheduler = self.bench.another()
        self.bench.run(2)
        assert len(self.store.read("w", {"q": 1}, 0)) == 1

    @property
    def attempts(self) -> list[int]:
        return [
            unpack_record(member).attempts
            for pending in self.store.ns.pending.values()
            for member, _ in pending
        ]


@pytest.fixture
def replica() -> Replica:
    return Replica()


def test_a_lost_workers_task_is_back_within_two_leases_and_charged(replica: Replica) -> None:
    replica.deliver()
    replica.watch(2 * LEASE, renewing="w")
    replica.watch(LEASE + 1.5)
    assert replica.attempts == [1]
    assert replica.stats.reclaimed == 1
    assert "w" not in replica.store.ns.leases


def test_a_worker_that_renews_keeps_its_task_for_ever(replica: Replica) -> None:
    """taskiq-python/taskiq-redis #101: a long task ran twice because of its idle time alone."""
    replica.deliver()
    replica.watch(20 * LEASE, renewing="w")
    assert replica.attempts == []


def test_a_new_replica_waits_one_lease_and_does_not_charge_what_it_did_not_see(
    replica: Replica,
) -> None:
    replica.deliver()
    replica.store.now += 100_000  # nobody was watching
    replica.watch(LEASE - 0.5)
    assert replica.stats.reclaimed == 0
    replica.watch(2.0)
    assert replica.attempts == [0]


def test_an_outage_reclaims_nobody_who_renews_after_it(replica: Replica) -> None:
    replica.deliver()
    replica.watch(2 * LEASE, renewing="w")
    replica.away(3 * LEASE)
    replica.watch(3 * LEASE, renewing="w")
    assert replica.stats.reclaimed == 0


def test_a_worker_lost_in_an_outage_is_reclaimed_uncharged(replica: Replica) -> None:
    replica.deliver()
    replica.watch(2 * LEASE, renewing="w")
    replica.away(3 * LEASE)
    replica.watch(LEASE - 1.0)
    assert replica.stats.reclaimed == 0
    replica.watch(2.0)
    assert replica.attempts == [0]


def test_a_frozen_replica_starts_over(replica: Replica) -> None:
    replica.deliver()
    replica.watch(2 * LEASE, renewing="w")
    replica.at += 100
    replica.store.now += 100_000
    replica.loop.attempt()
    assert replica.stats.reclaimed == 0
    replica.watch(2 * LEASE, renewing="w")
    assert replica.stats.reclaimed == 0


def test_the_loss_that_reaches_the_budget_buries(replica: Replica) -> None:
    for attempts in ([1], []):
        replica.deliver(new=attempts == [1])
        replica.watch(2 * LEASE, renewing="w")
        replica.watch(LEASE + 1.5)
        assert replica.attempts == attempts
    assert len(replica.store.ns.dead) == 1


def test_unread_entries_of_a_queue_without_workers_come_back(replica: Replica) -> None:
    replica.bench.worker("w", "q", slots=5, lease=1_000)
    replica.bench.submit(count=3)
    replica.bench.run()
    assert len(replica.bench.exec_keys()) == 3
    replica.watch(4 * LEASE)
    assert replica.bench.exec_keys() == []
    assert replica.attempts == [0, 0, 0]
    assert replica.stats.orphans == 3
