"""The ideal server that added latency is measured against."""

from __future__ import annotations

import pytest

from bench.experiments.latency.ideal import Timing, added


def test_an_idle_server_starts_at_once() -> None:
    assert added([Timing(10.0, 10.003, 11.0)], slots=1) == [pytest.approx(0.003)]


def test_a_wait_for_a_busy_slot_is_not_overhead() -> None:
    # One slot: the second task has to wait for the first one's second of work anyway.
    timings = [Timing(0.0, 0.0, 1.0), Timing(0.5, 1.25, 2.25)]
    assert added(timings, slots=1) == [0.0, pytest.approx(0.25)]
    # With a second slot the whole wait is overhead.
    assert added(timings, slots=2) == [0.0, pytest.approx(0.75)]


def test_order_of_the_file_does_not_matter() -> None:
    first, second = Timing(0.0, 0.1, 1.1), Timing(2.0, 2.2, 3.2)
    assert added([second, first], slots=1) == added([first, second], slots=1)
