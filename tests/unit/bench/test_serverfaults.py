"""What a fault of the server cost: each promise that is broken is named, and no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.experiments.serverfaults.account import Missing, Trial, again, failures, missing
from bench.experiments.serverfaults.chart import draw
from bench.experiments.serverfaults.loglines import Volume, volume
from bench.experiments.serverfaults.plan import FAULTS, Plan
from bench.experiments.serverfaults.pulse import Beat, between, resumed, standstill

PLAN = Plan()
NONE = Missing(0, 0, 0, 0.0)
GOOD = Trial(
    fault="shutdown", dispatch=0.5, settlement=0.6, standstill=0.6, lasted=4.0, accepted=800,
    lost=NONE, settled_twice=0, again=0, dispatched_during=0, settled_during=5, ended_during=5,
    log={"worker1": Volume(10, 1, "WARNING away")}, cpu={"worker1": 0.01},
)  # fmt: skip


def broken(fault: str = "shutdown", **changes: Any) -> list[str]:
    return failures(replace(GOOD, fault=fault, **changes), FAULTS[fault], PLAN)


def test_a_trial_that_keeps_every_promise() -> None:
    assert broken() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dispatch": None}, "dispatch did not go on"),
        ({"settlement": 5.1}, "settlement went on after 5.1 s"),
        ({"standstill": 6.0}, "nothing went on for 6.0 s after the fault"),
        ({"lost": Missing(2, 0, 1, 0.4)}, "2 lost, accepted up to 0.4 s before"),
        ({"lost": Missing(0, 3, 0, 0.0)}, "3 lost that were accepted afterwards"),
        ({"settled_twice": 1}, "1 settled twice"),
        ({"again": 4}, "4 started again"),
        ({"log": {"w": Volume(9, 2, "INFO x")}}, "w logged 2 lines in a second: INFO x"),
        (
            {"log": {"w": Volume(9, 1, "", 3)}},
            "w logged 3 tracebacks of what is to be expected",
        ),
        ({"cpu": {"w": 0.06}}, "w used 6% of a core while it waited"),
        ({"violations": ("epochs 1: back", "b")}, "tq verify: epochs 1: back"),
        ({"trouble": ("worker1 ended",)}, "worker1 ended"),
    ],
)
def test_a_broken_promise_is_named(changes: dict[str, Any], words: str) -> None:
    assert broken(**changes) == [words]


def test_what_a_fault_destroys_is_not_a_broken_promise() -> None:
    everything = Missing(60, 0, 60, 9.0)
    assert broken("flushall", lost=everything, again=1) == []
    assert broken("flushall", lost=Missing(60, 1, 0, 9.0)) == [
        "1 lost that were accepted afterwards"
    ]
    assert broken("power-everysec", lost=Missing(90, 0, 0, 1.0)) == []
    assert broken("power-everysec", lost=Missing(90, 0, 0, 1.3)) == [
        "90 lost, accepted up to 1.3 s before"
    ]


def test_a_full_server_settles_and_dispatches_nothing() -> None:
    assert broken("maxmemory") == []
    assert broken("maxmemory", settled_during=4, dispatched_during=7) == [
        "4 of 5 settled meanwhile",
        "7 dispatched meanwhile",
    ]
    assert broken("shutdown", settled_during=0) == []


def test_missing_tasks_by_when_they_were_accepted() -> None:
    accepted = {"a": 9.0, "b": 9.5, "c": 10.0, "during": 12.05, "late": 12.2}
    found = missing(accepted, ["a"], ["a", "b"], begin=10.0, end=12.0)
    assert found == Missing(before=3, after=1, unrun=2, oldest=0.5)
    assert missing(accepted, accepted, [], 10.0, 12.0) == NONE


def test_executions_beyond_the_first() -> None:
    assert again(["a", "b", "a", "c", "a"]) == 2


#: Before the end at 10 s the counters were higher: the server came back with nothing.
BEATS = [
    Beat(9.0, 100, 90), Beat(10.01, 0, 0), Beat(10.02, 0, 0), Beat(10.5, 1, 0), Beat(10.6, 2, 1),
    Beat(12.0, 2, 2), Beat(12.8, 3, 3), Beat(20.0, 3, 3),
]  # fmt: skip


def test_when_work_goes_on() -> None:
    assert resumed(BEATS, 10.0, "dispatched") == pytest.approx(0.5)
    assert resumed(BEATS, 10.0, "settled") == pytest.approx(0.6)
    assert resumed(BEATS[:3], 10.0, "settled") is None
    assert resumed([], 10.0, "settled") is None


def test_the_longest_standstill_until_the_load_ends() -> None:
    assert standstill(BEATS, 10.0, 13.0, "dispatched") == pytest.approx(2.2)
    assert standstill(BEATS, 10.0, 13.0, "settled") == pytest.approx(1.4)
    # a load that ended before anything went on
    assert standstill(BEATS, 10.0, 10.1, "settled") == pytest.approx(0.6)
    assert standstill([], 10.0, 13.0, "settled") == 0.0


def test_what_happened_during_a_fault() -> None:
    assert between(BEATS, 10.0, 12.0, "dispatched") == 2
    assert between(BEATS, 30.0, 40.0, "settled") == 0


LOG = """\
2026-03-01 10:00:00,100 WARNING round failed: loop=admit error="x 1" failures=3
2026-03-01 10:00:00,950 WARNING round failed: loop=admit error="x 2" failures=17
2026-03-01 10:00:01,000 WARNING round failed: loop=leader failures=1
[2026-03-01 10:00:01,060: WARNING/MainProcess] the store does not answer
Traceback (most recent call last):
  File "x", line 1
2026-03-01 10:00:01,900 WARNING round failed: loop=admit error="x 3" failures=18
"""


def test_lines_of_one_kind_within_a_second() -> None:
    """Numbers do not make another kind, and a second is not one of the clock's."""
    found = volume(LOG)
    assert (found.lines, found.most, found.tracebacks) == (7, 2, 1)
    assert found.kind.startswith("WARNING round failed: loop=admit")
    assert volume("") == Volume(0, 0, "")
    a_second_apart = LOG.splitlines()[0] + "\n" + LOG.splitlines()[0].replace("00,100", "01,060")
    assert volume(a_second_apart).most == 1


def test_the_picture(tmp_path: Path) -> None:
    trials = {"shutdown": [GOOD], "flushall": [replace(GOOD, dispatch=None)]}
    draw(trials, tmp_path / "x.png", PLAN)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_every_fault_outlasts_the_lease_or_needs_none() -> None:
    """Leases run out while a server is away, and renewals are rare where it never was."""
    for name, fault in FAULTS.items():
        if fault.waits and fault.destroys != "all":
            assert fault.lasts >= 2 * fault.lease, name
        else:
            assert fault.lease == 30.0, name
