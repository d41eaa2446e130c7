"""How far a worker reads ahead follows how long its slots waited for their next task."""

from __future__ import annotations

import pytest

from tq_celery.worker.credit import LONGEST, LOOK, RoundTrip, read_ahead


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
