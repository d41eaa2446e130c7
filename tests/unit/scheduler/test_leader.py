"""Election: a process leads only while it may believe so, and never because something failed."""

from __future__ import annotations

import pytest

from tq_celery.errors import StoreUnavailableError
from tq_celery.scheduler.leader import Election, Leadership
from tq_celery.scheduler.loop import Quiet
from tq_celery.scheduler.stats import SchedulerStats
from tq_celery.store.contract import Grant

TTL = 2.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Lease:
    """The lease of a namespace; every call takes ``delay`` seconds before it is answered.

    ``failing``: no call arrives. ``deaf``: each arrives, and its answer is lost.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.owner = ""
        self.epoch = 0
        self.until = 0.0
        self.delay = 0.0
        self.failing = self.deaf = False
        self.floors: list[int] = []
        self.calls: list[str] = []
        self.waited: list[int] = []
        self.released_while_waiting = False

    def _work(self, call: str) -> None:
        if self.failing:
            raise StoreUnavailableError(call, "away")
        self.calls.append(call)

    def _answer(self) -> None:
        if self.deaf:
            raise StoreUnavailableError("elect", "no answer")

    def elect(self, owner: str, ttl: int, floor: int = 0) -> Grant:
        self._work("elect")
        self.floors.append(floor)
        at = round(self.clock.now * 1000)
        if self.owner not in ("", owner) and self.clock.now < self.until:
            self.epoch = max(self.epoch, floor)
            return Grant(0, round((self.until - self.clock.now) * 1000), self.epoch, at)
        self.owner, self.until = owner, self.clock.now + ttl / 1000
        self.epoch = max(self.epoch, floor) + 1
        self.clock.now += self.delay
        self._answer()
        return Grant(self.epoch, ttl, self.epoch, at)

    def config(self) -> dict[str, str]:
        self._work("config")
        self._answer()
        return {}

    def extend(self, owner: str, epoch: int, ttl: int) -> bool:
        self._work("extend")
        if (self.owner, self.epoch) != (owner, epoch) or self.clock.now >= self.until:
            return False
        self.until = self.clock.now + ttl / 1000
        self.clock.now += self.delay
        self._answer()
        return True

    def resign(self, owner: str, epoch: int) -> bool:
        self._work("resign")
        if (self.owner, self.epoch) != (owner, epoch):
            return False
        self.owner = ""
        return True

    def await_succession(self, timeout: int) -> bool:
        self.waited.append(timeout)
        self.clock.now += timeout / 1000
        if self.released_while_waiting:
            self.owner = ""
        return self.released_while_waiting


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lease(clock: Clock) -> Lease:
    return Lease(clock)


def candidate(lease: Lease, owner: str, prepare=lambda: None) -> tuple[Election, Leadership]:
    leadership = Leadership(lease.clock)
    election = Election(
        lease,  # type: ignore[arg-type]  # the part of a store that an election uses
        leadership,
        SchedulerStats(),
        Quiet(),
        owner=owner,
        ttl=TTL,
        prepare=prepare,
        clock=lease.clock,
    )
    return election, leadership


def test_a_grant_leads_and_the_other_follows(lease: Lease) -> None:
    (one, leads_one), (two, leads_two) = candidate(lease, "one"), candidate(lease, "two")
    assert one.run_once() == pytest.approx(TTL / 4)
    two.run_once()
    assert (leads_one.epoch(), leads_two.epoch()) == (0, 0)  # two slept until the lease ran out
    two.run_once()
    assert leads_two.epoch() == 2
    one.run_once()
    assert leads_one.epoch() == 0


def test_a_follower_sleeps_for_the_rest_of_the_lease_and_does_not_poll(lease: Lease) -> None:
    candidate(lease, "one")[0].run_once()
    lease.clock.now += 0.8
    candidate(lease, "two")[0].run_once()
    assert sum(lease.waited) == 1200


def test_a_follower_asks_again_after_one_ttl_whatever_is_left_of_the_lease(lease: Lease) -> None:
    """A server whose clock is set back an hour says that the lease has an hour left.

    The leader's next renewal makes it a TTL again. Seen to fail when a follower slept for what it
    had been told: a leader that died within that hour was not missed before its end.
    """
    one, leads_one = candidate(lease, "one")
    two, leads_two = candidate(lease, "two")
    one.run_once()
    lease.until += 3600.0
    two.run_once()
    assert sum(lease.waited) == TTL * 1000
    one.run_once()
    lease.clock.now += TTL  # the leader is dead
    two.run_once()
    assert leads_two.epoch() == 2
    assert leads_one.epoch() == 0


def test_a_release_at_the_very_end_of_a_wait_is_noticed(lease: Lease, clock: Clock) -> None:
    """Seen to fail when the length of the wait told: the standby slept on for a whole lease."""
    lease.owner, lease.until = "other", clock.now + 30.0
    election, leadership = candidate(lease, "me")
    lease.released_while_waiting = True
    assert election.run_once() == 0.0
    assert lease.waited == [500]
    election.run_once()
    assert leadership.epoch() == 1


def test_trust_ends_before_the_lease_counted_from_the_start_of_the_attempt(lease: Lease) -> None:
    """A slow answer must not stretch a term: the lease began when the attempt reached the store."""
    lease.delay = 1.0
    election, leadership = candidate(lease, "one")
    election.run_once()
    assert leadership.epoch() == 1
    lease.clock.now = 100.0 + TTL * 0.9 - 0.01
    assert leadership.epoch() == 1
    lease.clock.now = 100.0 + TTL * 0.9
    assert leadership.epoch() == 0
    assert lease.until > lease.clock.now  # the lease itself still runs


def test_a_failed_renewal_is_repeated_and_trust_runs_out(lease: Lease) -> None:
    election, leadership = candidate(lease, "one")
    election.run_once()
    lease.failing = True
    for _ in range(3):
        lease.clock.now += 0.5
        assert election.attempt() < 0
        assert leadership.epoch() == 1
    lease.clock.now += 0.5
    assert leadership.epoch() == 0
    lease.failing = False
    election.run_once()  # the lease has run out: it is not renewed but won anew
    election.run_once()
    assert leadership.epoch() == 2


def test_who_is_heard_and_does_not_hear_keeps_the_lease_from_nobody(lease: Lease) -> None:
    """Of the calls whose answers are lost one renewal arrives; then the lease runs out.

    Seen to fail without the question before the next renewal: the lease was renewed for ever.
    """
    one, leads_one = candidate(lease, "one")
    two, leads_two = candidate(lease, "two")
    one.run_once()
    lease.deaf = True
    for _ in range(4):
        lease.clock.now += 0.5
        assert one.attempt() < 0
    assert lease.calls == ["elect", "extend", "config", "config", "config"]
    lease.clock.now += 0.5
    lease.deaf = False
    two.run_once()
    assert (leads_one.epoch(), leads_two.epoch()) == (0, 2)


def test_who_does_not_hear_takes_no_lease_again(lease: Lease) -> None:
    lease.deaf = True
    election, leadership = candidate(lease, "one")
    for _ in range(3):
        assert election.attempt() < 0
    assert lease.calls == ["elect", "config", "config"]
    lease.deaf = False
    assert election.attempt() >= 0
    assert leadership.epoch() == 2


def test_an_error_while_acquiring_makes_a_follower(lease: Lease) -> None:
    """sibson/redbeat #208: an exception while acquiring ran the scheduler as if it led."""
    lease.failing = True
    election, leadership = candidate(lease, "one")
    assert election.attempt() < 0
    assert leadership.epoch() == 0


def test_a_deleted_lease_key_deposes_in_place(lease: Lease) -> None:
    """sibson/redbeat #127 and #230: the key is gone; step down, stay alive, run again."""
    election, leadership = candidate(lease, "one")
    election.run_once()
    lease.owner = ""
    election.run_once()
    assert leadership.epoch() == 0
    election.run_once()
    assert leadership.epoch() == 2


def test_a_refusal_by_the_fence_ends_the_term_and_gives_the_lease_away(lease: Lease) -> None:
    election, leadership = candidate(lease, "one")
    election.run_once()
    leadership.refuse(1)
    assert leadership.epoch() == 0
    election.run_once()
    assert leadership.epoch() == 2  # a new term, with an epoch above the fence


def test_a_refusal_of_an_earlier_term_is_no_news(lease: Lease) -> None:
    election, leadership = candidate(lease, "one")
    election.run_once()
    leadership.refuse(0)
    election.run_once()
    assert leadership.epoch() == 1


def test_a_clean_stop_resigns(lease: Lease) -> None:
    election, leadership = candidate(lease, "one")
    election.run_once()
    election.finish()
    assert (leadership.epoch(), lease.owner) == (0, "")


def test_who_cannot_prepare_does_not_sit_on_the_lease(lease: Lease) -> None:
    def prepare() -> None:
        raise StoreUnavailableError("seed", "out of memory")

    election, leadership = candidate(lease, "one", prepare)
    assert election.attempt() < 0
    assert (leadership.epoch(), lease.owner) == (0, "")


def test_a_term_that_is_trusted_again_wakes_the_loops() -> None:
    """An outage longer than the trust and shorter than the lease leaves no loop resting.

    Seen to fail: all loops rested as followers for half a minute, under a lease that was renewed.
    """
    clock = Clock()
    leadership, told = Leadership(clock), []
    leadership.subscribe(lambda: told.append(leadership.epoch()))
    leadership.trust(1, clock.now + 1.0)
    clock.now += 0.9
    leadership.trust(1, clock.now + 1.0)
    assert told == [1], "a renewal in time is no news"
    clock.now += 1.0
    assert leadership.epoch() == 0
    leadership.trust(1, clock.now + 1.0)
    assert told == [1, 1]
