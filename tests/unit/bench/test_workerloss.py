"""The balance of a lost worker, and what a trial is judged by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.experiments.soak.account import Run
from bench.experiments.workerloss.account import Account, account, longest_pause
from bench.experiments.workerloss.burial import BUDGET, PARTS, Burial
from bench.experiments.workerloss.chart import draw
from bench.experiments.workerloss.figures import arm_figures, end_figures
from bench.experiments.workerloss.memory import killed, places
from bench.experiments.workerloss.trial import Trial
from bench.experiments.workerloss.verdict import of_burial, of_trial
from bench.harness.failures.records import Dispatch

LEASE = 5.0


def run(task: str, started: float, worker: str = "w1") -> Run:
    return Run((task, 0), worker, started, None)


def record(task: str, worker: str, attempts: int = 0, outcome: str = "completed") -> Dispatch:
    return Dispatch((1, 0), "q", 1, (task, 0, 0, 0), attempts, outcome, worker)


def balance(runs: list[Run], records: list[Dispatch], held: set[str]) -> Account:
    """A fault from second 10 to 10.5 to worker ``first``; tasks ``a`` and ``b`` are accepted."""
    return account(
        dict.fromkeys("ab", "completed"), runs, records, held, "first", at=10.0, over=10.5
    )


def test_a_recovery_ends_with_the_last_task_that_was_taken() -> None:
    runs = [run("a", 9.0), run("b", 9.5), run("a", 13.0, "w2"), run("b", 14.0, "w2")]
    found = balance(runs, [record("a", "second", 1), record("b", "second", 1)], {"a", "b"})
    assert found.recoveries == [3.0, 4.0]
    assert found.recovery == 4.0
    assert (found.taken, found.duplicates) == (2, 2)
    assert not found.stranded
    assert not found.unexplained


def test_a_start_while_the_fault_came_is_not_a_recovery() -> None:
    """Seen to fail with starts counted from ``at``."""
    found = balance([run("a", 10.2), run("a", 13.0)], [record("a", "second", 1)], {"a"})
    assert found.recoveries == [3.0]


def test_what_was_settled_at_the_last_moment_is_not_taken() -> None:
    found = balance([run("a", 9.0)], [record("a", "first"), record("b", "second")], {"a"})
    assert (found.taken, found.recovery) == (0, None)
    # a lost child's task that the same worker ran once more is
    found = balance(
        [run("a", 9.0), run("a", 11.0)], [record("a", "first", 1), record("b", "second")], {"a"}
    )
    assert (found.taken, found.recovery) == (1, 1.0)


def test_each_mistake_is_named() -> None:
    runs = [run("a", 9.0), run("b", 9.0), run("b", 12.0)]
    records = [record("b", "second"), record("b", "second", outcome="dead")]
    found = balance(runs, records, {"a"})
    assert found.stranded == ["a"]
    assert found.lost == ["a"]
    assert found.settled_twice == [("b", 0, 0, 0)]
    assert found.unexplained == ["b"]
    assert balance([], [record("a", "x", outcome="dead")], set()).wrong_outcome == [("a", "dead")]


def test_the_longest_pause_reaches_to_both_ends() -> None:
    runs = [run("a", 11.0), run("b", 14.0), run("c", 30.0)]
    assert longest_pause(runs, 10.0, 20.0) == 6.0
    assert longest_pause(runs, 5.0, 15.0) == 6.0
    assert longest_pause([], 5.0, 15.0) == 10.0


def test_a_groups_file_says_how_many_the_kernel_killed() -> None:
    assert killed("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n") == 2
    assert killed("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\noom_group_kill 0\n") == 1
    assert killed("") == 0


def test_a_group_is_made_below_the_own_one() -> None:
    text = "4:memory:/x/y\n3:cpuset:/\n0::/z\n"
    assert places(text) == [Path("/sys/fs/cgroup/memory/x/y"), Path("/sys/fs/cgroup/z")]


GOOD = Trial(
    pool="threads", fault="kill", how="SIGKILL",
    account=Account(10, 2, [3.0, 4.0], [], [], [], [], 2, []),
    slots=4, used=4, refused=0, orphans=0, pause=0.1, stamps_ms=2.0, stale=0, left={},
    violations=[],
)  # fmt: skip
CLOCK = replace(GOOD, fault="clock", account=Account(10, 0, [], [], [], [], [], 0, []))


def test_a_good_trial_passes() -> None:
    assert of_trial(GOOD, LEASE) == []
    assert of_trial(CLOCK, LEASE) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"recoveries": [10.1]}, "run again after 10.1 s, not within 10 s"),
        ({"taken": 0, "recoveries": []}, "the fault took nothing: there was nothing to recover"),
        ({"stranded": ["a"]}, "1 not run again, the first a"),
        ({"lost": ["a", "b"]}, "2 lost, the first a"),
        ({"settled_twice": [("a", 0, 0, 0)]}, "1 settled twice, the first ('a', 0, 0, 0)"),
        ({"unexplained": ["a"]}, "1 run again for no reason, the first a"),
        ({"wrong_outcome": [("a", "dead")]}, "1 with another outcome, the first ('a', 'dead')"),
    ],
)
def test_a_balance_that_is_wrong_fails(change: dict[str, Any], words: str) -> None:
    assert of_trial(replace(GOOD, account=replace(GOOD.account, **change)), LEASE) == [words]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"used": 3}, "3 tasks in 4 slots"),
        ({"used": 5}, "5 tasks in 4 slots"),
        ({"orphans": 1}, "1 processes outlived their worker"),
        ({"stale": 2}, "2 dispatches under an epoch that was over"),
        ({"stamps_ms": 3_600_000.0}, "a stamp is wrong by 3600000 ms"),
        ({"left": {"ingress": 1}}, "left over: {'ingress': 1}"),
        ({"violations": ["x", "y"]}, "2 promises broken, the first x"),
    ],
)
def test_a_trial_that_is_wrong_fails(change: dict[str, Any], words: str) -> None:
    assert of_trial(replace(GOOD, **change), LEASE) == [words]


def test_a_wrong_clock_must_not_stop_the_work() -> None:
    assert of_trial(replace(CLOCK, pause=5.1), LEASE) == ["nothing started for 5.1 s"]
    assert of_trial(replace(GOOD, pause=5.1), LEASE) == []


BURIED = Burial(
    pool="solo", starts=BUDGET, workers=3, letters=1, bystanders=0, attempts=BUDGET,
    reason="worker lost", result=("FAILURE", "DeadTaskError"), chord=("FAILURE", "ChordError"),
    parts=PARTS, summed=False, seconds=9.0, settled_twice=0, left={}, violations=[],
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"starts": 4}, "4 starts, 1 dead letters, 3 attempts"),
        ({"letters": 0, "attempts": 0}, "3 starts, 0 dead letters, 0 attempts"),
        ({"result": ("", "")}, "its result is missing"),
        ({"chord": ("FAILURE", "DeadTaskError")}, "the chord ended as FAILURE DeadTaskError"),
        ({"summed": True}, "the chord's body ran"),
        ({"parts": 3, "bystanders": 1}, "3 of the 4 other parts completed"),
        ({"settled_twice": 1}, "1 settled twice"),
        ({"violations": ["x"]}, "1 promises broken, the first x"),
    ],
)
def test_the_end_of_a_task_that_kills_its_worker(change: dict[str, Any], words: str | None) -> None:
    assert of_burial(replace(BURIED, **change)) == ([words] if words else [])


def test_the_figures_of_an_arm() -> None:
    slower = replace(GOOD, account=replace(GOOD.account, recoveries=[6.0], duplicates=1))
    found = arm_figures([GOOD, slower])
    assert (found["median_ms"], found["max_ms"]) == (5000, 6000)
    assert (found["duplicates"], found["executed_again"], found["taken"]) == (0, 3, 4)
    assert arm_figures([CLOCK])["median_ms"] is None
    assert end_figures([BURIED])["chords"] == ["FAILURE ChordError"]


def test_a_chart_of_what_recovered_and_what_need_not(tmp_path: Path) -> None:
    path = tmp_path / "chart.png"
    draw({("solo", "kill"): [4.0, 4.4], ("solo", "clock"): []}, LEASE, path)
    assert path.read_bytes().startswith(b"\x89PNG")
