"""The arithmetic behind every figure the bench prints."""

from __future__ import annotations

import pytest

from bench.harness.measure import (
    Calls,
    Sample,
    command_calls,
    command_difference,
    movement,
    paired_ratio,
    spread,
    total_microseconds,
)


def test_spread() -> None:
    assert spread([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)
    with pytest.raises(ValueError, match="no values"):
        spread([])


def test_ratio_pairs_repetitions_before_it_takes_the_median() -> None:
    # The second repetition ran on a machine at half speed; the pair still says 2.
    assert paired_ratio([20.0, 10.0, 22.0], [10.0, 5.0, 10.0]) == (2.0, 2.0, 2.2)


def test_ratio_refuses_unpaired_or_empty_rates() -> None:
    with pytest.raises(ValueError, match="2 repetitions against 1"):
        paired_ratio([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="positive"):
        paired_ratio([1.0], [0.0])


def test_command_statistics_difference() -> None:
    before = command_calls({"cmdstat_evalsha": {"calls": 2, "usec": 100, "usec_per_call": 50.0}})
    after = command_calls(
        {
            "cmdstat_evalsha": {"calls": 5, "usec": 400, "usec_per_call": 80.0},
            "cmdstat_xadd": {"calls": 7, "usec": 70, "usec_per_call": 10.0},
        }
    )
    difference = command_difference(before, after)
    assert difference == {"evalsha": Calls(3, 300.0), "xadd": Calls(7, 70.0)}
    assert command_difference(after, after) == {}


def test_a_reset_between_readings_is_an_error() -> None:
    with pytest.raises(ValueError, match="reset"):
        command_difference({"get": Calls(9, 9.0)}, {"get": Calls(3, 3.0)})


def test_script_time_is_not_counted_twice() -> None:
    calls = {"evalsha": Calls(1, 500.0), "xadd": Calls(9, 90.0), "xread": Calls(1, 10.0)}
    assert total_microseconds(calls) == 510.0


def test_movement_leaves_out_start_up_and_the_idle_end() -> None:
    samples = [
        Sample(0.0, 0),  # the worker is still importing
        Sample(5.0, 0),
        Sample(5.1, 100),  # the clock starts here, with 100 already done
        Sample(6.1, 1_100),
        Sample(7.1, 2_100),
        Sample(9.0, 2_100),  # nothing left
    ]
    assert movement(samples) == pytest.approx(1_000.0)


def test_movement_needs_two_steps() -> None:
    with pytest.raises(ValueError, match="more tasks"):
        movement([Sample(0.0, 0), Sample(1.0, 10), Sample(2.0, 10)])
