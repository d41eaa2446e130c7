"""Below which duration a scheduler costs throughput, found between measured durations."""

from __future__ import annotations

import pytest

from bench.experiments.headtohead.crossover import COST, Point, crossover


def test_a_ratio_that_is_never_below_one_crosses_nowhere() -> None:
    found = crossover([Point(0, 4.0), Point(5, 1.0), Point(50, 0.99)])
    assert found == (None, "none: never below")


def test_between_two_durations_it_lies_on_a_straight_line() -> None:
    """Seen to fail with the durations in place of the ratios in the share."""
    found = crossover([Point(2, COST - 0.3), Point(10, COST + 0.1), Point(20, 1.0)])
    assert found.ms == pytest.approx(8.0)
    assert found.says == "tasks shorter than 8 ms"


def test_the_order_of_the_points_does_not_matter() -> None:
    assert crossover([Point(10, 1.0), Point(0, 0.5)]) == crossover([Point(0, 0.5), Point(10, 1.0)])


def test_the_last_crossing_counts_where_there_are_several() -> None:
    found = crossover([Point(0, 1.5), Point(1, 0.9), Point(2, 1.2), Point(5, 0.9), Point(10, 1.06)])
    assert found.ms == pytest.approx(7.5)


def test_still_below_at_the_longest_duration() -> None:
    found = crossover([Point(0, 1.2), Point(50, 0.9)])
    assert found == (None, "not up to 50 ms: still below there")


def test_nothing_measured() -> None:
    assert crossover([]) == (None, "not measured")
