"""The leader's accounts: who has series of their own, and the time of the slots."""

from __future__ import annotations

from tests.unit.scheduler.support import Bench
from tq_celery.scheduler.account import LONGEST, PERIOD

SECOND = 1_000


def shown(bench: Bench) -> set[bytes]:
    return {tenant for tenant, each in bench.store.ns.service.items() if each.shown}


def slot_seconds(bench: Bench) -> tuple[float, float]:
    counters = bench.store.ns.counters
    return counters["slot_ms", "offered"] / SECOND, counters["slot_ms", "busy"] / SECOND


def test_who_was_served_has_series_at_the_next_look() -> None:
    bench = Bench()
    bench.worker("w", "q", slots=4)
    bench.submit(count=3)
    bench.run()
    assert shown(bench) == set()
    bench.settle("w")
    bench.run()
    assert shown(bench) == {b"acme"}


def test_who_has_settings_has_series_at_once() -> None:
    bench = Bench()
    bench.store.set_weight(b"heavy", 2.0)
    bench.run()
    assert shown(bench) == {b"heavy"}


def test_with_none_asked_for_nobody_has() -> None:
    bench = Bench({"metrics_tenants": 0})
    bench.store.set_weight(b"heavy", 2.0)
    bench.worker("w", "q", slots=4)
    bench.submit()
    bench.run()
    bench.settle("w")
    bench.run()
    assert shown(bench) == set()
    assert bench.store.ns.counters["other", "waits"] == 1


def test_very_many_changes_are_written_a_batch_at_a_time() -> None:
    """A script that writes a thousand records holds up nobody for long."""
    bench = Bench()
    for number in range(1_100):
        bench.store.set_weight(b"tenant %d" % number, 2.0)
    loop = bench.scheduler._account
    sizes = []
    for _ in range(3):
        bench.scheduler._election.attempt()
        sizes.append((loop.attempt(), len(shown(bench))))
    assert sizes == [(0.0, 500), (PERIOD, 1_000), (PERIOD, 1_000)]


def test_the_time_of_the_slots_adds_up() -> None:
    bench = Bench({"leader_ttl": 60.0})
    bench.worker("w", "q", slots=4, lease=10**9)
    bench.submit(count=3)
    bench.run()
    bench.store.read("w", {"q": 3}, 0)
    assert slot_seconds(bench) == (0, 0)
    bench.pass_time(5 * SECOND)
    bench.run()
    assert slot_seconds(bench) == (20, 15)
    bench.settle("w")
    bench.store.withdraw("w")
    bench.pass_time(5 * SECOND)
    bench.run()
    assert slot_seconds(bench) == (20, 15)


def test_the_next_leader_goes_on_where_the_last_one_stopped() -> None:
    """Of the time between no more than so much counts, in both numbers."""
    bench = Bench()
    bench.worker("w", "q", slots=4, lease=10**9)
    bench.run()
    bench.scheduler.stop()
    bench.pass_time(3 * SECOND)
    other = bench.another()
    other.run_once()
    assert slot_seconds(bench) == (12, 0)
    other.stop()
    bench.pass_time(3_600 * SECOND)
    bench.another().run_once()
    assert slot_seconds(bench) == (12 + 4 * LONGEST, 0)


def test_a_standby_keeps_no_accounts() -> None:
    bench = Bench()
    bench.worker("w", "q", slots=4)
    bench.run()
    standby = bench.another()
    bench.store.set_weight(b"heavy", 2.0)
    bench.pass_time(5 * SECOND)
    standby._account.attempt()
    assert (shown(bench), slot_seconds(bench)) == (set(), (0, 0))
