"""The partition in its short form: a leader whose words arrive late, a worker that is not heard."""

from __future__ import annotations

import pytest

from bench.experiments.partition.account import faults
from bench.experiments.partition.arms import Plan, named
from bench.experiments.partition.run import partition
from tests.waiting import BUSY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PLAN = Plan(lease=3.0, before=1.0, after=1.5, slack=BUSY)


def test_a_leader_whose_words_arrive_late_is_superseded_and_refused() -> None:
    arm = named("leader-up-long")
    found = partition(arm, PLAN, "valkey").account
    assert faults(arm, PLAN, found) == []
    # its last words were held back, and arrived after the other one had written
    assert found.writes_refused >= 1
    assert found.dispatched["during"].cut_off == found.dispatched["after"].cut_off == 0


def test_a_worker_that_is_not_heard_loses_its_tasks_to_the_other_one() -> None:
    arm = named("worker-silent-long")
    found = partition(arm, PLAN, "valkey").account
    assert faults(arm, PLAN, found) == []
    assert found.again >= 1
    assert found.settled["during"].cut_off == 0
    assert found.settlements_refused >= 1
