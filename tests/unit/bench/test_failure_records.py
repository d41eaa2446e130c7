"""What the records of a run tell: outages, gaps, stale dispatches, what was lost."""

from __future__ import annotations

from bench.harness.failures.records import Dispatch, gaps, lost, outage, settled_twice, stale


def dispatch(ms: int, epoch: int = 1, name: str = "a", seq: int = 0) -> Dispatch:
    return Dispatch((ms, seq), "celery", epoch, (name, 0, 0, 0), 0, "completed", "w1")


def test_an_outage_is_from_the_last_dispatch_before_to_the_first_after() -> None:
    records = [dispatch(ms) for ms in (100, 110, 120, 2_150, 2_160)]
    assert outage(records, 120) == 2_030
    assert outage(records, 1_000) == 2_030
    # the event was after the last dispatch, or before the first: nothing to measure
    assert outage(records, 2_160) is None
    assert outage(records, 99) is None


def test_the_order_in_which_records_come_does_not_matter() -> None:
    records = [dispatch(ms) for ms in (2_150, 100, 120, 110)]
    assert outage(records, 1_000) == 2_030
    assert gaps(records) == [10, 10, 2_030]


def test_gaps_are_those_within_the_window() -> None:
    records = [dispatch(ms) for ms in (100, 101, 104, 200)]
    assert gaps(records) == [1, 3, 96]
    assert gaps(records, since=101, until=104) == [3]


def test_an_epoch_that_goes_back_is_stale_within_one_millisecond_too() -> None:
    records = [dispatch(5, 1), dispatch(5, 2, seq=1), dispatch(5, 1, "late", seq=2)]
    assert [each.key[0] for each in stale(records)] == ["late"]
    assert stale([dispatch(5, 1), dispatch(5, 2, seq=1), dispatch(6, 2)]) == []


def test_a_task_that_no_worker_had_counts_for_no_gap() -> None:
    revoked = Dispatch((0, 0), "celery", 0, ("r", 0, 0, 0), 0, "revoked", "")
    records = [dispatch(100, 3), revoked, dispatch(107, 3)]
    assert gaps(records) == [7]
    assert stale(records) == []


def test_what_is_lost_and_what_was_settled_twice() -> None:
    records = [dispatch(1, name="a"), dispatch(2, name="b"), dispatch(3, name="b")]
    assert lost(["a", "b", "c"], records) == ["c"]
    assert settled_twice(records) == [("b", 0, 0, 0)]
