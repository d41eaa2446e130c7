"""An epoch that was in use before is found out, and the term that has it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.scheduler.support import Bench
from tests.unit.scheduler.test_leader import Clock, Lease, candidate
from tq_celery.scheduler.epochs import NEWER, USED_BEFORE, Epochs
from tq_celery.store.contract import Grant, WorkerAnnouncement

WITNESS = WorkerAnnouncement("w", ("q",), 4, 0)


@pytest.fixture
def lease() -> Lease:
    return Lease(Clock())


def witness(epoch: int, since: int = 0) -> list[WorkerAnnouncement]:
    return [replace(WITNESS, epoch=epoch, epoch_since=since)]


# -- what is known -----------------------------------------------------------------------------


def test_the_newest_epoch_known_is_the_floor_of_the_next_attempt(lease: Lease) -> None:
    election, leadership = candidate(lease, "one")
    leadership.epochs.heard(7)
    election.run_once()
    assert lease.floors == [7]
    assert leadership.epoch() == 8


def test_a_follower_remembers_the_epoch_in_force(lease: Lease) -> None:
    """Its server may forget it. Seen to fail without the note of a refused attempt."""
    candidate(lease, "one")[0].run_once()
    lease.epoch = 41
    two, leads_two = candidate(lease, "two")
    two.run_once()
    assert leads_two.epochs.newest == 41
    lease.epoch, lease.owner = 0, ""
    two.run_once()
    assert leads_two.epoch() == 42


def test_an_own_epoch_in_anothers_hands_was_given_twice(lease: Lease) -> None:
    """The server forgot the grant of 5 and gave 5 to another; the two must not share the fence.

    Seen to fail without the comparison with the last own epoch: the other went on under 5.
    """
    lease.epoch = 4
    one, leads_one = candidate(lease, "one")
    two, leads_two = candidate(lease, "two")
    one.run_once()
    assert leads_one.epoch() == 5
    lease.owner, lease.epoch = "", 4
    two.run_once()
    assert leads_two.epoch() == 5
    one.run_once()  # the lease is gone
    assert one.run_once() == 0.0, "it asks again at once"
    assert lease.waited == []
    one.run_once()
    assert lease.floors[-1] == 6
    assert lease.waited != [], "and then follows"
    two.run_once()
    two.run_once()
    assert leads_two.epoch() == 7


def test_a_newer_epoch_in_anothers_hands_is_no_wonder() -> None:
    epochs = Epochs()
    epochs.granted(Grant(5, 100, 5, 1_000))
    assert not epochs.refused(Grant(0, 100, 6, 2_000))
    assert epochs.newest == 6


# -- what workers announce ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "since", "reason"),
    [(6, 2_000, NEWER), (5, 999, USED_BEFORE), (5, 1_000, ""), (4, 10, ""), (0, 0, "")],
    ids=["newer", "before the grant", "since the grant", "older", "none yet"],
)
def test_a_workers_word_on_an_epoch(epoch: int, since: int, reason: str) -> None:
    """A leader of epoch 5, granted at 1,000 ms on the store's clock."""
    epochs = Epochs()
    epochs.granted(Grant(5, 100, 5, 1_000))
    assert epochs.is_over(5, witness(epoch, since)) == reason
    assert epochs.newest == max(5, epoch)


def test_a_leader_under_an_epoch_in_use_before_runs_again_above_it() -> None:
    """Seen to fail without the look at announcements: it led under epoch 1 for good."""
    bench = Bench()
    bench.run()
    assert bench.scheduler.leadership.epoch() == 1
    bench.store.renew(witness(1, since=bench.store.now - 500)[0], 30_000)
    bench.submit()
    bench.run(3)
    assert bench.scheduler.leadership.epoch() == 2
    assert bench.scheduler.stats.depositions == 1
    bench.run(3)
    assert bench.scheduler.leadership.epoch() == 2, "once is enough"


def test_a_worker_that_had_a_newer_epoch_lifts_the_leader_above_it() -> None:
    bench = Bench()
    bench.run()
    bench.store.renew(witness(7, since=bench.store.now)[0], 30_000)
    bench.run(3)
    assert bench.scheduler.leadership.epoch() == 8


def test_a_standby_learns_from_workers() -> None:
    """The look of reclaim, which runs whether a process leads or not."""
    bench = Bench()
    bench.run()
    standby = bench.another()
    bench.store.ns.announcements["w"] = witness(7)[0]
    bench.store.ns.leases["w"] = bench.store.now + 1
    standby.run_once()
    assert not standby.leading
    assert standby.leadership.epochs.newest == 7
