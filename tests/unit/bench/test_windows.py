"""The fullest window of a storm of retries, and what draws the sleeps in it."""

from __future__ import annotations

import random

import pytest

from bench.experiments.retrystorm.fleet import sleeper
from bench.experiments.retrystorm.windows import fewer, fullest


def test_the_fullest_window_may_begin_anywhere() -> None:
    assert fullest([], 0.01) == 0
    assert fullest([5.0], 0.01) == 1
    assert fullest([0.004, 0.009, 0.011, 0.013, 0.5], 0.01) == 4
    # half open: a moment exactly one width later is in the next window
    assert fullest([0.0, 1.0, 2.0], 1.0) == 1
    rng = random.Random(3)
    moments = [rng.uniform(0, 5) for _ in range(300)]
    slow = max(sum(at <= other < at + 0.25 for other in moments) for at in moments)
    assert fullest(moments, 0.25) == slow


def test_shares_are_formed_pair_by_pair() -> None:
    assert fewer([10, 30], [100, 20]) == [pytest.approx(0.9), pytest.approx(-0.5)]


def test_the_arms_draw_their_sleeps_as_tasks_do() -> None:
    exponential = sleeper("exponential", 1)
    assert [exponential(n, None) for n in range(5)] == [1, 2, 4, 8, 8]
    jitter = sleeper("full_jitter", 1)
    assert {jitter(3, None) for _ in range(200)} == set(range(9))
    ours, again = sleeper("decorrelated", 7), sleeper("decorrelated", 7)
    drawn = [ours(0, None) for _ in range(100)]
    assert drawn == [again(0, None) for _ in range(100)]
    assert all(1 <= each <= 3 for each in drawn)
    assert all(1 <= ours(0, 2.0) <= 6 for _ in range(100))
