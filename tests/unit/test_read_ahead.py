"""How far a worker reads ahead follows how long its slots waited for their next task."""

from __future__ import annotations

import itertools

import pytest

from tq_celery.worker.credit import LONGEST, LOOK, FinishRate, RoundTrip, read_ahead


def work(trip: RoundTrip, seconds: float, *, rate: float, slots: int, gap: float) -> None:
    """Let a busy pool work: of every slot that becomes free, ``gap`` s pass until its next task."""
    now = trip._since
    end = now + seconds
    while now < end:
        now += 1 / rate
        trip.ended(now)
        if gap:
            trip.arrived(1, 1, now + gap)
        trip.adjust(rate, slots, now)


def test_it_shrinks_while_no_slot_waits() -> None:
    """Six tasks of 50 ms were held by eight slots, 40 ms in front of every small tenant's task.

    Seen to fail when the round trip was a constant.
    """
    trip = RoundTrip()
    assert read_ahead(160, trip.seconds, 8, 0) == 6
    work(trip, 4.0, rate=160, slots=8, gap=0.0)
    assert read_ahead(160, trip.seconds, 8, 6) == 0


def test_it_grows_until_slots_hardly_wait() -> None:
    trip = RoundTrip()
    work(trip, 4.0, rate=160, slots=8, gap=0.0)
    work(trip, 4.0, rate=160, slots=8, gap=0.005)
    assert trip.seconds == LONGEST


def test_it_stays_where_few_slots_wait() -> None:
    """Between the two bounds nothing changes: every change would wake the scheduler."""
    trip = RoundTrip()
    work(trip, 2 * LOOK, rate=160, slots=8, gap=0.0)
    before = trip.seconds
    work(trip, 4.0, rate=160, slots=8, gap=0.0005)
    assert trip.seconds == before < LONGEST


def test_brisk_tasks_keep_the_longest() -> None:
    """No-op tasks come in batches: what is held then says little.

    Seen to fail when a small round trip was kept as the rate went up.
    """
    trip = RoundTrip()
    work(trip, 4.0, rate=160, slots=8, gap=0.0)
    work(trip, 2.0, rate=5_000, slots=8, gap=0.0)
    assert trip.seconds == LONGEST


@pytest.mark.parametrize("free", [1, 3])
def test_the_latest_ends_are_those_of_the_slots_that_wait(free: int) -> None:
    trip = RoundTrip()
    for at in (1.0, 2.0, 3.0):
        trip.ended(at)
    trip.arrived(1, free, 4.0)
    assert trip._idle == {1: 1.0, 3: 3.0}[free], "the slot that has waited longest is filled"


def test_more_slots_than_ends_and_no_slot_at_all_are_no_wait() -> None:
    trip = RoundTrip()
    trip.arrived(4, 8, 1.0)
    trip.ended(1.0)
    trip.arrived(4, 0, 2.0)
    trip.arrived(4, -3, 2.0)
    assert trip._idle == 0.0


def test_about_one_task_of_read_ahead_is_not_announced_anew_with_every_end() -> None:
    """Every change is a renewal and wakes the scheduler; the rate moves with each end.

    Seen to fail with 0 for everything below one task: 257 changes in 1,600 ends.
    """
    rate, held, changes = FinishRate(), 0, 0
    # Eight slots, tasks of 40, 50 and 60 ms: 160 ends a second, for ten seconds.
    ends = sorted(
        slot * 0.006 + end
        for slot in range(8)
        for end in itertools.accumulate(itertools.islice(itertools.cycle((0.04, 0.05, 0.06)), 200))
    )
    for end in ends:
        rate.add(1, end)
        for later in (0.0, 0.002):
            wanted = read_ahead(rate.per_second(end + later), 1 / 160, 8, held)
            held, changes = wanted, changes + (wanted != held)
    assert changes < 10


def test_one_task_is_announced_from_one_on_and_kept_down_to_two_thirds() -> None:
    assert [read_ahead(100, seconds, 8, 0) for seconds in (0.009, 0.011)] == [0, 1]
    assert [read_ahead(100, seconds, 8, 1) for seconds in (0.006, 0.007, 0.014)] == [0, 1, 1]
    assert read_ahead(0, LONGEST, 8, 1) == read_ahead(100, LONGEST, 0, 1) == 0
