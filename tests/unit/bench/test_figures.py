"""The figures of a cell, on tasks that are worked out by hand."""

from __future__ import annotations

import random
from dataclasses import asdict
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.harness.figures import figures, missed, whole
from bench.harness.record import Row
from tests.unit.bench.lab_rows import make_row

DEAD: dict[str, Any] = {"outcome": "dead", "started": None, "finished": None}
MISSING: dict[str, Any] = {"outcome": "missing", "started": None, "finished": None, "executions": 0}


def test_waits_latencies_and_their_percentiles() -> None:
    found = figures([make_row(job, wait=float(job), held=0.5) for job in range(101)])
    assert (found.tasks, found.completed) == (101, 101)
    assert found.wait_p50 == 50
    assert found.wait_p95 == 95
    assert found.wait_p99 == 99
    assert found.wait_max == 100
    assert found.latency_mean == 50.5
    assert found.latency_max == 100.5
    assert found.tail_ratio == pytest.approx(99.5 / 50.5)
    # More than the threshold: 2..100, 6..100, 11..100, 31..100.
    assert [found.over_1, found.over_5, found.over_10, found.over_30] == [99, 95, 90, 70]


def test_a_deadline_counts_from_the_submission_and_on_it_is_a_hit() -> None:
    on_time = make_row(submitted=5.0, wait=0.1, held=0.2, deadline=0.1 + 0.2)
    late = make_row(submitted=5.0, wait=0.1, held=0.201, deadline=0.3)
    assert not missed(on_time)
    assert missed(late)
    assert not missed(make_row(deadline=None))
    assert not missed(make_row(deadline=0.1, **DEAD))


def test_misses_are_a_share_of_completed_tasks_that_have_a_deadline() -> None:
    rows = [
        make_row(0, deadline=2.0),
        make_row(1, deadline=0.5),
        make_row(2),
        make_row(3, deadline=0.5, **DEAD),
        make_row(4, deadline=0.5, **MISSING),
    ]
    found = figures(rows)
    assert (found.with_deadline, found.missed, found.miss_rate) == (2, 1, 0.5)
    assert (found.completed, found.dead, found.missing) == (3, 1, 1)
    assert figures(rows[2:]).miss_rate is None


def test_executions_beyond_the_first() -> None:
    rows = [make_row(0, executions=3), make_row(1), make_row(2, **MISSING)]
    assert figures(rows).repeats == 2


def test_throughput_utilisation_and_makespan() -> None:
    """From the first submission to the last completion, whoever they belong to."""
    rows = [
        make_row(0, submitted=1.0, **DEAD),
        make_row(1, submitted=2.0, wait=1.0, held=2.0),
        make_row(2, submitted=3.0, wait=3.0, held=5.0),
    ]
    found = whole(rows, slots=2)
    assert found.makespan == 10.0
    assert found.throughput == 0.2
    assert found.utilisation == pytest.approx(7 / 20)
    assert found.service == 7.0


def test_jain_over_service_and_counts_includes_who_got_nothing() -> None:
    rows = [
        make_row(0, tenant="a", held=3.0),
        make_row(1, tenant="b", held=1.0),
        make_row(2, tenant="b", held=0.0),
        make_row(3, tenant="c", **MISSING),
    ]
    found = whole(rows, slots=1)
    assert found.jain_service == pytest.approx(16 / (3 * 10))
    assert found.jain_counts == pytest.approx(9 / (3 * 5))


def test_jain_while_tenants_compete_is_over_cost_by_weight() -> None:
    """a and b wait from 0 to 8; a runs 3 of 4 seconds, at a cost of 2 per second."""
    rows = [
        make_row(job, wait=start, held=end - start, tenant=tenant, cost=cost)
        for job, (tenant, start, end, cost) in enumerate(
            [("a", 0, 3, 6), ("b", 3, 4, 2), ("a", 4, 7, 6), ("b", 7, 8, 2), ("a", 8, 9, 2),
             ("b", 9, 10, 2)]
        )
    ]  # fmt: skip
    rows.append(make_row(9, submitted=80.0))  # arrivals over 80 s: windows of 4 s
    assert whole(rows, 1).jain_weighted == pytest.approx(0.8)
    assert whole(rows, 1, {"a": 3.0}).jain_weighted == pytest.approx(1.0)


def test_of_nothing_there_are_no_figures() -> None:
    for rows in ([], [make_row(**MISSING)]):
        found = whole(rows, slots=4)
        assert found.completed == 0
        assert found.wait_p95 is found.latency_mean is found.tail_ratio is None
        assert found.makespan is found.throughput is found.utilisation is None
        assert found.jain_weighted is None
    assert whole([], 4).jain_service is None
    assert whole([make_row(**MISSING)], 4).jain_service == 1.0


ROWS = st.builds(
    make_row,
    submitted=st.floats(0, 100),
    wait=st.floats(0, 50),
    held=st.floats(0.001, 10),
    tenant=st.sampled_from("abc"),
    deadline=st.none() | st.floats(0.01, 60),
)


@given(st.lists(ROWS, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(rows: list[Row], chance: random.Random) -> None:
    first = asdict(whole(rows, 3))
    chance.shuffle(rows)
    for name, value in asdict(whole(rows, 3)).items():
        assert value == pytest.approx(first[name]), name


@given(st.lists(ROWS, min_size=1, max_size=30))
def test_a_mean_latency_is_a_mean_wait_and_a_mean_time_of_service(rows: list[Row]) -> None:
    found = figures(rows)
    assert found.latency_mean == pytest.approx(
        fmean((row.started or 0.0) - row.submitted for row in rows) + found.service / len(rows)
    )
