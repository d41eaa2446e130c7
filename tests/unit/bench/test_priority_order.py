"""The order of starts is judged by the first unimportant task, and by the first half of it."""

from __future__ import annotations

import pytest

from bench.experiments.priority.order import Order, order
from bench.harness.events import Event


def started(jobs: list[int]) -> list[Event]:
    return [Event("S", job, float(at), "", 0) for at, job in enumerate(jobs)]


def test_all_critical_tasks_first() -> None:
    assert order(started([2, 3, 0, 1]), 2) == Order(share=1.0, in_front=1.0)


def test_first_in_first_out() -> None:
    assert order(started([0, 1, 2, 3]), 2) == Order(share=0.0, in_front=0.0)


def test_one_that_slips_in_front_costs_the_share() -> None:
    assert order(started([4, 0, 5, 6, 7, 1, 2, 3]), 4) == Order(share=0.25, in_front=0.75)


def test_it_is_the_time_that_counts_and_not_the_place_in_the_file() -> None:
    events = [Event("E", 1, 0.5, "", 0), *reversed(started([1, 0]))]
    assert order(events, 1) == Order(share=1.0, in_front=1.0)


@pytest.mark.parametrize("jobs", [[0, 1, 1], [0], [0, 2]])
def test_a_task_that_is_lost_or_runs_twice_leaves_nothing_to_judge(jobs: list[int]) -> None:
    with pytest.raises(ValueError, match="starts of 2 tasks"):
        order(started(jobs), 1)
