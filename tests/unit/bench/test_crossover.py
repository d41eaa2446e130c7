"""Below which duration a scheduler costs throughput, found between measured durations."""

from __future__ import annotations

import pytest

from bench.experiments.headtohead.crossover import COST, Point, crossover


def test_a_ratio_that_is_never_below_one_crosses_nowhere() -> None:
    found = crossover([Point(0, 4.0), Point(5, 1.0), Point(50, 0.99)])
    assert found == (None, "nowhere")


def test_between_two_durations_it_lies_on_a_straight_line() -> None:
    """Seen to fail with the durations in place of the ratios in the share."""
    found = crossover([Point(2, COST - 0.3), Point(10, COST + 0.1), Point(20, 1.0)])
    assert found.ms == pytest.approx(8.0)
    assert found.says == "below 8 ms"


def test_the_order_of_the_points_does_not_matter() -> None:
    assert crossover([Point(10, 1.0), Point(0, 0.5)]) == crossover([Point(0, 0.5), Point(10, 1.0)])


def test_each_stretch_is_named_and_the_last_crossing_counts() -> None:
    """Seen to fail when everything below the last crossing was said to cost."""
    found = crossover([Point(0, 1.5), Point(1, 0.9), Point(2, 1.2), Point(5, 0.9), Point(10, 1.06)])
    assert found.ms == pytest.approx(7.5)
    assert found.says == "0.87 to 1.3 ms, 4.2 to 7.5 ms"


def test_still_below_at_the_longest_duration() -> None:
    found = crossover([Point(0, 1.2), Point(50, 0.9)])
    assert found == (None, "from 37 ms on")
    assert crossover([Point(0, 0.8), Point(50, 0.9)]) == (None, "everywhere")


def test_nothing_measured() -> None:
    assert crossover([]) == (None, "not measured")
