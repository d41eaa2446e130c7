"""The best prefetch multiplier: the fastest, but of nearly equal ones the lowest."""

from __future__ import annotations

import pytest

from bench.harness.prefetch import best_prefetch


def test_the_fastest_is_kept_with_what_the_others_reached() -> None:
    rates = {1: 1000.0, 4: 1200.0, 16: 1900.0, 64: 1500.0}
    found = best_prefetch((64, 1, 16, 4), rates.__getitem__)
    assert found.best == 16
    assert found.figures == rates


def test_a_higher_one_has_to_be_better_by_more_than_noise() -> None:
    """Seen to fail with a plain maximum, which took 64."""
    assert best_prefetch((1, 4, 64), {1: 100.0, 4: 102.0, 64: 102.9}.__getitem__).best == 1
    assert best_prefetch((1, 4, 64), {1: 100.0, 4: 104.0, 64: 106.0}.__getitem__).best == 4


def test_none_to_choose_from() -> None:
    with pytest.raises(ValueError, match="no multipliers"):
        best_prefetch((), float)
