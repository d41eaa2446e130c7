"""An outage is recognised, and what lapses because of it is neither taken back nor charged."""

from __future__ import annotations

from tq_celery.scheduler.contact import Contact

LEASE = 3.0


def contact_over(*answers: tuple[float, int]) -> Contact:
    contact = Contact(LEASE, longest_gap=1.0)
    for at, ms in answers:
        contact.answered(ms, at)
    return contact


def every_half_second(start: float, end: float, shift_ms: int = 0) -> list[tuple[float, int]]:
    steps = round((end - start) * 2) + 1
    return [(start + i / 2, round((start + i / 2) * 1000) + shift_ms) for i in range(steps)]


def test_nothing_is_reclaimed_before_one_whole_lease_of_contact() -> None:
    assert not contact_over().settled(10.0)
    assert not contact_over(*every_half_second(10, 12.5)).settled(12.5)
    assert contact_over(*every_half_second(10, 13)).settled(13.0)


def test_a_failed_call_starts_over() -> None:
    contact = contact_over(*every_half_second(10, 20))
    contact.broken()
    assert not contact.settled(20.0)
    contact.answered(20_500, 20.5)
    assert not contact.settled(20.5)


def test_a_gap_without_a_failed_call_starts_over() -> None:
    """This process was frozen, or the server was, and nothing raised."""
    contact = contact_over(*every_half_second(10, 20), (25.0, 25_000))
    assert not contact.settled(25.0)


def test_a_step_of_the_servers_clock_starts_over() -> None:
    """A jump forward makes every lease look lapsed at once.

    sidekiq-scheduler/sidekiq-scheduler #283.
    """
    for jump in (600_000, -600_000):
        contact = contact_over(*every_half_second(10, 20), (20.5, 20_500 + jump))
        assert not contact.settled(20.5)


def test_a_loss_counts_only_when_the_worker_renewed_during_the_contact() -> None:
    contact = contact_over(*every_half_second(100, 110))
    assert not contact.counts(expires=100_000)  # ran out when the contact began
    assert not contact.counts(expires=102_999)  # last renewed just before it
    assert contact.counts(expires=103_000)  # renewed at its first moment
    contact.broken()
    assert not contact.counts(expires=110_000)
