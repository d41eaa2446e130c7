"""Records that are well packed and mean nothing are kept apart before a script meets them."""

from __future__ import annotations

import math

import pytest

from tq_celery.policies.wfq import WeightedFair
from tq_celery.scheduler.arrivals import rank_arrivals
from tq_celery.scheduler.promote import rank_all_due
from tq_celery.scheduler.ranking import LONGEST_TENANT
from tq_celery.store.contract import Arrival, DueTask
from tq_celery.store.record import NO_DEADLINE, RECORD

SENSELESS = [
    (math.nan, NO_DEADLINE, b"t"),
    (math.inf, NO_DEADLINE, b"t"),
    (-1.0, NO_DEADLINE, b"t"),
    (0.0, NO_DEADLINE, b"t"),
    (1.0, 2**64 - 1, b"t"),
    (1.0, NO_DEADLINE, b"t" * (LONGEST_TENANT + 1)),
]


def record(cost: float, deadline: int) -> bytes:
    return RECORD.pack(0, 0, cost, 0, deadline, 1, 0, 0, 0) + b"0.0.0.id"


@pytest.mark.parametrize(("cost", "deadline", "tenant"), SENSELESS)
def test_arrivals(cost: float, deadline: int, tenant: bytes) -> None:
    bad = Arrival(b"1-0", "q", tenant, record(cost, deadline))
    good = Arrival(b"2-0", "q", b"t", record(1.0, NO_DEADLINE))
    ranked, unreadable = rank_arrivals(WeightedFair(), [bad, good])
    assert [each.entry for each in ranked] == [b"2-0"]
    assert [each.entry for each in unreadable] == [b"1-0"]
    assert "ValueError" in unreadable[0].reason


@pytest.mark.parametrize(("cost", "deadline", "tenant"), SENSELESS)
def test_due_tasks(cost: float, deadline: int, tenant: bytes) -> None:
    bad = DueTask(b"bad", 5, "q", tenant, record(cost, deadline))
    good = DueTask(b"good", 5, "q", b"t", record(1.0, NO_DEADLINE))
    unread = DueTask(b"raw", 5, "", b"", b"", "unreadable")
    ranked, unreadable = rank_all_due(WeightedFair(), [bad, unread, good])
    assert [each.member for each in ranked] == [b"good"]
    assert [each.member for each in unreadable] == [b"bad", b"raw"]
    assert all(each.reason for each in unreadable)
