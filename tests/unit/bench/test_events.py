"""What bodies and the producer write is read as it grows and adds up to one row per task."""

from __future__ import annotations

from bench.harness.events import Account, Event, Tail
from tq_celery.workloads.work import Work

PLAN = [
    Work(0, 0.0, 0.05, "a", 0.05, 1, 2.0),
    Work(1, 0.1, 0.05, "b", 0.05),
    Work(2, 0.2, 0.05, "b", 0.05),
]


def account(*lines: str, start: float = 100.0) -> Account:
    found = Account(PLAN, start)
    for line in lines:
        words = line.split()
        word, job, at, executor = (*words, *("", "0", "0", "x")[len(words) :])
        found.apply(Event(word, int(job), float(at), executor, 0))
    return found


def test_a_row_has_the_execution_that_completed_relative_to_the_first_arrival():
    rows = account("P 0 100.25", "S 0 100.5", "E 0 100.75").rows()
    assert rows[0] == (0, "a", 1, 0.05, 0.05, 2.0, 0.0, 0.25, 0.25, 0.5, 0.75, 1, "completed")


def test_a_task_never_sent_keeps_its_planned_arrival_and_is_missing():
    row = account().rows()[2]
    assert (row.submitted, row.lag, row.started, row.outcome) == (0.2, 0.0, None, "missing")


def test_an_abandoned_attempt_counts_as_an_execution_and_the_next_one_completes():
    row = account("S 1 101 first", "K 1 102 first", "S 1 103 next", "E 1 104 next").rows()[1]
    assert (row.started, row.finished, row.executions, row.outcome) == (3.0, 4.0, 2, "completed")


def test_of_two_executions_the_first_that_ends_counts():
    """Seen to fail with the start of whichever execution began last."""
    found = account("S 1 101 x", "S 1 102 y", "E 1 103 x", "E 1 104 y")
    assert found.rows()[1][9:12] == (1.0, 3.0, 2)


def test_a_dead_letter_is_dead_unless_it_completed_after_all():
    rows = account("S 0 101", "E 0 102").rows(dead={0, 1})
    assert [row.outcome for row in rows] == ["completed", "dead", "missing"]


def test_the_warm_up_is_in_no_row_and_in_no_count():
    found = account("S -1 99", "E -1 99.5")
    assert (found.warm, found.executions, found.completed) == (1, {}, {})
    assert found.executors == {(0, "x")}


def test_lines_count_once_they_are_whole(tmp_path):
    """Seen to fail when a rest without a line end was taken for a line."""
    paths = [tmp_path / "worker", tmp_path / "sent"]
    for path in paths:
        path.touch()
    tail = Tail(paths)
    with paths[0].open("a") as worker, paths[1].open("a") as sent:
        worker.write("S 7 1.5 4.1\nE 7 1.")
        worker.flush()
        assert list(tail.read()) == [Event("S", 7, 1.5, "4.1", 0)]
        worker.write("75 4.1\n")
        sent.write("P 7 1.25\nD\n")
        worker.flush()
        sent.flush()
        assert list(tail.read()) == [
            Event("E", 7, 1.75, "4.1", 0), Event("P", 7, 1.25, "", 1), Event("D", 0, 0.0, "", 1),
        ]  # fmt: skip
    tail.close()
