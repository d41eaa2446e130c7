"""What metrics cost, from blocks of one worker's time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.experiments.scrape.drained import ratios, shares, whole_rounds
from bench.experiments.scrape.worker_app import TURNS, Block


def blocks(rounds: int, tasks: int = 100) -> list[Block]:
    """Return whole rounds; in each block ``on`` ten tasks fewer start."""
    found, done = [], 0
    for kind in TURNS * rounds:
        started = tasks - 10 * (kind == "on")
        done += started
        found.append(Block(kind, 0.5, started, 0.01, 0.002, done))
    return found


def test_the_first_round_and_the_end_of_the_queue_do_not_count() -> None:
    taken = blocks(4)
    total = taken[-1].done
    assert len(whole_rounds(taken, total)) == 2, "the last round reaches the end"
    assert len(whole_rounds(taken, total * 2)) == 3
    assert len(whole_rounds(taken[:-1], total * 2)) == 2, "a round that was cut off"
    assert whole_rounds(taken[:6], total) == []


def test_figures_by_kind() -> None:
    found = shares(blocks(2))
    assert (found["off"].rate, found["counters"].rate, found["on"].rate) == (200, 200, 180)
    assert found["off"].cpu_us == pytest.approx(120)
    assert found["on"].cpu_us == pytest.approx(120 * 100 / 90)


def test_a_hiccup_in_one_round_does_not_show() -> None:
    taken = blocks(5)
    slow = [replace(each, seconds=5.0) if each.kind == "on" else each for each in taken[12:18]]
    found = ratios([taken[:6], taken[6:12], slow])
    assert found["on"].rate == pytest.approx(0.9)
    assert found["counters"].rate == 1.0
