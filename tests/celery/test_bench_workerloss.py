"""The shortest form of the experiment on lost workers: real processes, real signals."""

from __future__ import annotations

import pytest

from bench.experiments.workerloss.burial import burial
from bench.experiments.workerloss.stage import Plan
from bench.experiments.workerloss.trial import trial
from bench.experiments.workerloss.verdict import of_burial, of_trial
from tests.waiting import BUSY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

#: The shortest lease in which the renewals of a busy machine are in time.
PLAN = Plan(lease=2.0, server="valkey")


@pytest.mark.parametrize(
    ("pool", "fault"),
    [("threads", "kill"), ("gevent", "freeze"), ("prefork", "oom"), ("solo", "clock")],
)
def test_a_lost_workers_tasks_run_again_and_all_is_right(pool: str, fault: str) -> None:
    found = trial(pool, fault, PLAN, f"short-{pool}-{fault}")
    assert of_trial(found, PLAN.lease, slack=BUSY) == []
    assert found.account.tasks > 30


def test_what_kills_its_worker_is_buried_alone() -> None:
    """Its four neighbours completed. Seen to fail when all that was lost came back at once."""
    assert of_burial(burial("threads", PLAN, "short-deadly")) == []
