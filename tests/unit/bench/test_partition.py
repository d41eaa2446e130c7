"""The partition's arithmetic: phases, gaps and the pass rule, each with what has to break it."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from bench.experiments.partition.account import (
    Account,
    Shares,
    Window,
    again,
    faults,
    longest_gap,
    shares,
)
from bench.experiments.partition.arms import ARMS, Plan, named
from bench.experiments.partition.chart import draw
from bench.experiments.partition.run import Trial

PLAN = Plan(ttl=2.0, lease=6.0, slack=0.2)
WINDOW = Window(cut=1_000, healed=6_000)


def test_moments_are_counted_by_phase_and_side() -> None:
    moments = [(999, True), (1_000, True), (1_001, True), (6_000, False), (6_001, True)]
    assert shares(moments, WINDOW) == {
        "before": Shares(2, 0),
        "during": Shares(1, 1),
        "after": Shares(1, 0),
    }


@pytest.mark.parametrize(
    "moments, seconds",
    [
        ([990, 3_000, 3_010, 7_000], 3.99),  # the one that lasts until after the end counts
        ([0, 990, 1_010, 6_100, 9_000], 5.09),  # gaps before the cut or after the end do not
        ([990, 3_000, 6_000], inf),  # nothing came any more
        ([1_500, 7_000], inf),  # nothing had come before
        ([], inf),
    ],
)
def test_the_longest_gap_that_overlaps_the_cut(moments: list[int], seconds: float) -> None:
    assert longest_gap(moments, WINDOW) == pytest.approx(seconds)


def test_what_was_started_more_than_once() -> None:
    assert again(["a", "b", "a", "c", "c", "c"]) == ["a", "c"]


def test_times_and_promises_follow_from_what_the_side_holds() -> None:
    assert len({arm.name for arm in ARMS}) == len(ARMS) == 13
    assert named("leader-up-short").seconds(PLAN) == pytest.approx(0.6)
    assert named("leader-up-long").seconds(PLAN) == pytest.approx(5.0)
    assert named("leader-up-long").promised(PLAN) == pytest.approx(2.2)
    assert named("leader-down-long").promised(PLAN) == pytest.approx(2.7)
    assert named("worker-silent-long").seconds(PLAN) == pytest.approx(15.0)
    assert named("worker-silent-long").promised(PLAN) == pytest.approx(12.2)
    assert named("worker-silent-short").promised(PLAN) == pytest.approx(4.0)


def good(side: str) -> Account:
    phases = {
        "before": Shares(10, 0), "during": Shares(0, 50), "after": Shares(0, 10),
    }  # fmt: skip
    return Account(
        seconds=5.0, accepted=70, resumed=2.0, dispatched=phases, settled=phases,
        grants=1 if side == "leader" else 0, writes_refused=1, settlements_refused=0,
        held=4, again=0, unexplained=[], stale=0, lost=[], settled_twice=[], left={},
        violations=[],
    )  # fmt: skip


@pytest.mark.parametrize("side", ["leader", "worker"])
def test_a_good_trial_passes(side: str) -> None:
    assert faults(named(f"{side}-up-long"), PLAN, good(side)) == []


@pytest.mark.parametrize(
    "arm, change, words",
    [
        ("leader-up-long", {"stale": 3}, "3 dispatches under a superseded epoch"),
        ("leader-up-long", {"lost": ["a"]}, "1 lost"),
        ("leader-up-long", {"settled_twice": ["a", "b"]}, "2 settled twice"),
        ("leader-up-long", {"unexplained": ["a"]}, "1 started again without a cause"),
        ("leader-up-long", {"left": {"payload": 2}}, "2 left over"),
        ("leader-up-long", {"violations": ["epochs"]}, "1 promises broken, the first: epochs"),
        ("leader-up-long", {"resumed": 2.21}, "work went on after 2.21 s, not within 2.20 s"),
        ("leader-up-long", {"grants": 2}, "2 grants of leadership instead of 1"),
        ("leader-up-short", {"resumed": 0.6}, "1 grants of leadership instead of 0"),
        (
            "leader-up-long",
            {"dispatched": {"during": Shares(5, 0)}},
            "the standby dispatched nothing during the cut",
        ),
        ("worker-up-long", {"held": 0}, "the worker ran nothing when it was cut off"),
        ("worker-up-long", {"grants": 1}, "1 grants of leadership although the leader was well"),
        ("worker-silent-short", {"again": 2}, "2 run again although the lease held"),
    ],
)
def test_each_fault_is_named(arm: str, change: dict[str, Any], words: str) -> None:
    found = replace(good(named(arm).side), **change)
    assert faults(named(arm), PLAN, found) == [words]


def test_the_chart_is_drawn(tmp_path: Path) -> None:
    moments = [(-0.5, True), (0.1, True), (2.1, False), (2.2, False)]
    trials = {
        arm: Trial(good(named(arm).side), moments, "redis 7")
        for arm in ("leader-up-long", "worker-up-long", "worker-down-long")
    }
    draw(trials, tmp_path / "partition.png")
    assert (tmp_path / "partition.png").read_bytes().startswith(b"\x89PNG")
