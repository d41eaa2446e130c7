"""The soak's books: each kind of mistake is found, and a fault explains what it caused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.experiments.soak.account import Account, Fault, Run, account, read_accepted, read_runs

GOOD = [(("a", 0), "completed"), (("b", 0), "retried"), (("b", 1), "completed")]
KINDS = {"a": "work", "b": "retried"}


def balance(recorded=GOOD, runs=(), faults=(), left=None) -> Account:
    return account(KINDS, recorded, runs, faults, left or {})


def test_books_that_balance() -> None:
    found = balance(runs=[Run(("a", 0), "w1", 1.0, 1.1), Run(("b", 0), "w1", 1.0, 1.1)])
    assert found.passed
    assert (found.tasks, found.duplicates) == (3, 0)


@pytest.mark.parametrize(
    "recorded, word, wrong",
    [
        (GOOD[:2], "lost", [("b", 1)]),
        ([*GOOD, GOOD[0]], "settled_twice", [("a", 0)]),
        ([(("a", 0), "dead"), *GOOD[1:]], "wrong_outcome", [(("a", 0), "dead")]),
        ([*GOOD, (("c", 0), "completed")], "unexpected", [("c", 0)]),
    ],
)
def test_a_mistake_is_named(recorded, word, wrong) -> None:
    found = balance(recorded)
    assert getattr(found, word) == wrong
    assert not found.passed


def test_what_is_left_over_fails() -> None:
    assert not balance(left={"payload": 1, "exec": 0}).passed


FIRST = Run(("a", 0), "w1", 10.0, 10.1)


@pytest.mark.parametrize(
    "first, fault, explained",
    [
        (FIRST, Fault(10.05, 10.05, "worker killed", "w1"), True),
        (FIRST, Fault(10.5, 10.5, "worker killed", "w1"), True),  # ended, not settled yet
        (FIRST, Fault(12.0, 12.0, "worker killed", "w1"), False),  # settled long before
        (FIRST, Fault(9.0, 9.0, "worker killed", "w1"), False),  # before it started
        (FIRST, Fault(10.05, 10.05, "worker killed", "w2"), False),  # another worker
        (FIRST, Fault(10.05, 10.05, "worker stopped", "w1"), False),  # a clean stop is no excuse
        (FIRST, Fault(10.05, 10.9, "server restarted", ""), True),
        (FIRST, Fault(20.0, 20.5, "server restarted", ""), False),
        (FIRST._replace(ended=None), Fault(99.0, 99.0, "worker killed", "w1"), True),
    ],
)
def test_a_second_execution_needs_a_cause(first, fault, explained) -> None:
    found = balance(runs=[first, Run(("a", 0), "w3", 30.0, 30.1)], faults=[fault])
    assert found.duplicates == 1
    assert found.passed == explained


def test_the_files_are_read_back(tmp_path: Path) -> None:
    (tmp_path / "sent").write_text("work a\nretried b\n")
    (tmp_path / "runs").write_text("S a 0 w1 1.0\nS b 0 w1 1.1\nE a 0 w1 1.2\nS a 0 w1 1.3\n")
    assert read_accepted(tmp_path / "sent") == KINDS
    assert sorted(read_runs(tmp_path / "runs"), key=lambda run: run.started) == [
        Run(("a", 0), "w1", 1.0, 1.2),
        Run(("b", 0), "w1", 1.1, None),
        Run(("a", 0), "w1", 1.3, None),
    ]
