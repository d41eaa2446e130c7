"""The statistics of a run, on values worked out by hand."""

from __future__ import annotations

import pytest

from tq_celery.replay.stats import Served, Waits, jain_backlogged, service, utilisation


def test_waits_of_one_to_a_hundred() -> None:
    summary = Waits.of(float(i) for i in range(100, 0, -1))
    assert (summary.count, summary.max) == (100, 100.0)
    assert [summary.mean, summary.p50, summary.p95, summary.p99] == pytest.approx(
        [50.5, 50.5, 95.05, 99.01]
    )
    assert Waits.of([]) == Waits(0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_a_wait_is_never_negative() -> None:
    assert Served("a", 5.0, 4.9, 6.0).wait == 0.0
    assert Served("a", 5.0, 7.5, 8.0).wait == 2.5


RUN = [Served("a", 0.0, 0.0, 4.0), Served("b", 0.0, 1.0, 2.0), Served("a", 1.0, 4.0, 5.0)]


def test_service_and_utilisation() -> None:
    assert service(RUN) == {"a": 5.0, "b": 1.0}
    assert service(RUN, until=2.0) == {"a": 2.0, "b": 1.0}
    assert utilisation(RUN, slots=2) == pytest.approx(0.6)
    assert utilisation([], slots=2) == 0.0


def backlog(tenant: str, starts: list[tuple[float, float]]) -> list[Served]:
    """Tasks all submitted at 0 that run as given."""
    return [Served(tenant, 0.0, start, finish) for start, finish in starts]


def test_backlogged_tenants_served_alike_score_one() -> None:
    run = [
        *backlog("a", [(0, 1), (2, 3), (4, 5), (6, 7)]),
        *backlog("b", [(1, 2), (3, 4), (5, 6), (7, 8)]),
    ]
    assert jain_backlogged(run, window=2.0) == pytest.approx(1.0)


def test_a_tenant_kept_out_while_it_waits_lowers_the_index() -> None:
    run = [*backlog("a", [(0, 4), (4, 6)]), *backlog("b", [(6, 8)])]
    # a waits during [0, 4), b during [0, 6): they compete in the windows [0, 2) and [2, 4).
    assert jain_backlogged(run, window=2.0) == pytest.approx(0.5)


def test_weights_divide_the_service() -> None:
    run = [
        *backlog("a", [(0, 3), (4, 7), (8, 9)]),
        *backlog("b", [(3, 4), (7, 8), (9, 10)]),
    ]
    assert jain_backlogged(run, window=4.0, weights={"a": 3.0}) == pytest.approx(1.0)
    assert jain_backlogged(run, window=4.0) == pytest.approx(0.8)


def test_service_may_be_counted_in_another_unit_than_seconds() -> None:
    run = [
        *(task._replace(rate=3.0) for task in backlog("a", [(0, 1), (4, 5), (8, 9)])),
        *backlog("b", [(1, 4), (5, 8), (9, 12)]),
    ]
    assert jain_backlogged(run, window=4.0) == pytest.approx(1.0)


def test_a_window_in_which_nobody_is_served_compares_nobody() -> None:
    """Nobody served is all alike, but says nothing; seen to fail without the look at shares."""
    run = [*backlog("a", [(4, 5), (6, 7), (8, 9)]), *backlog("b", [(5, 6)])]
    # Both wait in [0, 4), where nothing runs; in [4, 8) only a waits all the time.
    assert jain_backlogged(run, window=4.0) is None


def test_a_tenant_that_waits_only_part_of_a_window_is_not_compared() -> None:
    run = [*backlog("a", [(0, 4), (4, 5)]), Served("b", 0.5, 3.0, 4.0)]
    assert jain_backlogged(run, window=4.0) is None
    assert jain_backlogged([], window=1.0) is None
