"""What the records of a run tell: stale dispatches, what was lost; and what bodies noted."""

from __future__ import annotations

from pathlib import Path

from bench.harness.failures.bodies import Body, bodies
from bench.harness.failures.records import Dispatch, lost, settled_twice, stale


def dispatch(ms: int, epoch: int = 1, name: str = "a", seq: int = 0) -> Dispatch:
    return Dispatch((ms, seq), "celery", epoch, (name, 0, 0, 0), 0, "completed", "w1")


def test_an_epoch_that_goes_back_is_stale_within_one_millisecond_too() -> None:
    records = [dispatch(5, 1), dispatch(5, 2, seq=1), dispatch(5, 1, "late", seq=2)]
    assert [each.key[0] for each in stale(records)] == ["late"]
    assert stale([dispatch(5, 1), dispatch(5, 2, seq=1), dispatch(6, 2)]) == []


def test_the_order_in_which_records_come_does_not_matter() -> None:
    assert stale([dispatch(6, 2), dispatch(5, 1)]) == []
    assert stale([dispatch(6, 1, "late"), dispatch(5, 2)])[0].key[0] == "late"


def test_a_task_that_no_worker_had_was_not_dispatched() -> None:
    revoked = Dispatch((0, 0), "celery", 9, ("r", 0, 0, 0), 0, "revoked", "")
    assert stale([dispatch(100, 3), revoked, dispatch(107, 3)]) == []


def test_what_is_lost_and_what_was_settled_twice() -> None:
    records = [dispatch(1, name="a"), dispatch(2, name="b"), dispatch(3, name="b")]
    assert lost(["a", "b", "c"], records) == ["c"]
    assert settled_twice(records) == [("b", 0, 0, 0)]


def test_what_bodies_note(tmp_path: Path) -> None:
    file = tmp_path / "runs"
    file.write_text("S one 0 worker1@bench 1.5\nE one 0 worker1@bench 1.75\nS one 1 w2@bench 2\n")
    assert bodies(file) == [
        Body(False, "one", 0, "worker1", 1.5),
        Body(True, "one", 0, "worker1", 1.75),
        Body(False, "one", 1, "w2", 2.0),
    ]
