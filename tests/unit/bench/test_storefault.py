"""The books of a failover, from logs, calls, records and executions that are written out here."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bench.experiments.storefault.account import Account, Lead, account, given_twice, leads
from bench.experiments.storefault.chart import WORDS, draw
from bench.experiments.storefault.judge import failures, summary
from bench.experiments.storefault.plain_scheduler import COUNTERS, WITNESSES, counting_on
from bench.experiments.storefault.plan import ARMS
from bench.experiments.storefault.run import Trial
from bench.harness.errors import BenchError
from bench.harness.failures.load import Call
from bench.harness.failures.records import Dispatch
from bench.harness.sentinels import Death
from tq_celery.store.scripts import SCRIPTS


def line(at: str, message: str, **fields: object) -> str:
    return json.dumps({"at": at, "level": "info", "message": message, **fields})


def record(ms: int, epoch: int, task_id: str, outcome: str = "completed") -> Dispatch:
    return Dispatch((ms, 0), "q", epoch, (task_id, 0, 0, 0), 1, outcome, "w")


def test_terms_are_read_from_the_logs_in_order() -> None:
    first = "\n".join([
        "a line that somebody else printed",
        line("10:00", "scheduler started"),
        line("10:01", "leading", owner="a", epoch=1),
        line("10:05", "leading", owner="a", epoch=3),
    ])  # fmt: skip
    second = line("10:03", "leading", owner="b", epoch=2)
    second += '\n{"at": "10:04", "message": "lead'
    assert leads([first, second]) == [Lead(1, "a"), Lead(2, "b"), Lead(3, "a")]


@pytest.mark.parametrize(
    ("terms", "twice"),
    [
        ([Lead(1, "a"), Lead(2, "b")], []),
        ([Lead(1, "a"), Lead(2, "b"), Lead(2, "c"), Lead(1, "c")], [1, 2]),
        # the same scheduler: its writes of both terms are its own
        ([Lead(2, "b"), Lead(2, "b")], []),
    ],
)
def test_an_epoch_is_given_twice_when_two_have_led_under_it(
    terms: list[Lead], twice: list[int]
) -> None:
    assert given_twice(terms) == twice


def example() -> Account:
    """The primary dies at 100 s, which is 5,000 ms on the servers' clock."""
    return account(
        [Lead(1, "a"), Lead(2, "b"), Lead(2, "c")],
        [
            Call("A", "kept", 90.0, ""),
            Call("A", "gone", 99.0, ""),
            Call("A", "gone, but run", 99.5, ""),
            Call("R", "refused", 99.6, "NOREPLICAS"),
            Call("U", "unknown", 100.5, "TimeoutError"),
            Call("A", "later", 103.0, ""),
            Call("A", "lost", 103.5, ""),
        ],
        [
            record(4_000, 1, "kept"),
            record(9_000, 2, "later"),
            record(9_001, 2, "unknown", "failed"),
        ],
        Counter({"kept": 2, "gone, but run": 1, "later": 1}),
        died=100.0,
        died_ms=5_000,
    )


def test_what_was_accepted_is_kept_destroyed_or_lost() -> None:
    assert example() == Account(
        epochs=[1, 2, 2],
        given_twice=[2],
        dispatched_under_them=2,
        accepted=5,
        refused=1,
        unknown=1,
        completed=2,
        destroyed=2,
        destroyed_run=1,
        lost=["lost"],
        run_again=1,
        settled_twice=0,
        stale_dispatches=0,
        accepting_ms=3_000.0,
        dispatching_ms=4_000,
    )


def test_work_that_does_not_go_on_has_no_time() -> None:
    found = account([], [Call("A", "one", 1.0, "")], [record(1, 1, "one")], Counter(), 2.0, 2)
    assert (found.accepting_ms, found.dispatching_ms) == (None, None)


def trial(arm: str, **changes: object) -> Trial:
    """A trial in which all went well for an arm that changes nothing."""
    well: dict[str, object] = {"given_twice": [], "destroyed": 0, "lost": [], "refused": 0}
    found = replace(example(), **{**well, **changes})  # type: ignore[arg-type]
    return Trial(arm, found, Death(5_000, 900, (False, False), (400, 500)), (), "redis 7")


GOOD = {
    "caught-up": trial("caught-up"),
    "cut-plain": trial("cut-plain", given_twice=[2], destroyed=9),
    "cut": trial("cut", destroyed=9),
    "cut-workers-know": trial(
        "cut-workers-know", epochs=[1, 2, 2, 3], given_twice=[2], destroyed=9
    ),
    "cut-forgotten": trial("cut-forgotten", given_twice=[2], destroyed=9),
    "cut-wait": trial("cut-wait", destroyed=9),
    "cut-min-replicas": trial("cut-min-replicas", refused=9),
    "stall-min-replicas": trial("stall-min-replicas", refused=9, destroyed=4),
    "apart": trial("apart", epochs=[1, 2, 2, 4], given_twice=[2], destroyed=9),
    "apart-min-replicas": trial("apart-min-replicas", refused=9),
}


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_can_pass(name: str) -> None:
    assert failures(GOOD[name]) == []


@pytest.mark.parametrize(
    ("arm", "changes", "said"),
    [
        ("cut-plain", {"given_twice": []}, "no epoch was given twice although"),
        ("cut-plain", {"destroyed": 0}, "nothing that was accepted was destroyed"),
        ("cut", {"given_twice": [2, 3]}, "epochs given twice: 2, 3"),
        ("cut-wait", {"given_twice": [2]}, "epochs given twice: 2"),
        ("cut-min-replicas", {"destroyed": 1}, "1 accepted and destroyed"),
        ("cut-min-replicas", {"refused": 0}, "nothing was refused although"),
        ("cut-workers-know", {"epochs": [1, 2, 2]}, "goes on under epoch 2, which was given twice"),
        ("apart", {"epochs": [1, 2, 2]}, "goes on under epoch 2, which was given twice"),
        ("apart-min-replicas", {"destroyed": 2}, "2 accepted and destroyed"),
        ("stall-min-replicas", {"given_twice": [2]}, "epochs given twice: 2"),
        ("caught-up", {"lost": ["x", "y"]}, "2 accepted after the failover and lost"),
        ("caught-up", {"settled_twice": 3}, "3 settled twice"),
        ("caught-up", {"stale_dispatches": 1}, "1 dispatched under a superseded epoch"),
        ("caught-up", {"dispatching_ms": None}, "work did not go on"),
    ],
)
def test_what_an_arm_must_not_show_fails_it(
    arm: str, changes: dict[str, object], said: str
) -> None:
    good = GOOD[arm]
    bad = replace(good, account=replace(good.account, **changes))  # type: ignore[arg-type]
    (words,) = failures(bad)
    assert said in words


def test_a_broken_promise_fails_every_arm() -> None:
    (words,) = failures(replace(GOOD["cut"], violations=["epochs: x", "counters: y"]))
    assert words == "2 promises broken, the first: epochs: x"


def test_an_arm_is_summed_up_over_its_trials() -> None:
    found = summary([
        trial("cut", destroyed=2, accepting_ms=1_000.0),
        trial("cut", destroyed=3, given_twice=[2], accepting_ms=3_000.0),
    ])  # fmt: skip
    assert (found["trials"], found["destroyed"], found["epochs_given_twice"]) == (2, 5, 1)
    assert found["accepting_ms"] == {"median": 2_000.0, "min": 1_000.0, "max": 3_000.0}
    # the better of the two replicas lacks 400 bytes
    assert found["behind_bytes"]["median"] == 400.0


def test_the_plain_election_counts_on_and_asks_nobody() -> None:
    plain = counting_on(SCRIPTS["elect"])
    assert WITNESSES not in plain.text
    assert COUNTERS in plain.text
    assert plain.sha != SCRIPTS["elect"].sha
    with pytest.raises(BenchError, match="expected form"):
        counting_on(plain)


def test_every_arm_has_its_bar(tmp_path: Path) -> None:
    assert WORDS.keys() == ARMS.keys()
    path = tmp_path / "chart.png"
    draw({name: summary([each]) for name, each in GOOD.items()}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
