"""The failover experiment's arithmetic: outages, their two terms, who led, and the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bench.experiments.failover.judge import cell, failures
from bench.experiments.failover.moments import Grants, Quiet, quiet, standstill, trials, waiting
from bench.experiments.failover.plan import Course
from bench.experiments.failover.run import blocks, reason
from bench.experiments.failover.watch import Metrics, claims
from bench.harness.failures.records import Dispatch


def dispatch(ms: int, epoch: int, name: str, seq: int = 0) -> Dispatch:
    return Dispatch((ms, seq), "celery", epoch, (name, 0, 0, 0), 0, "completed", "w1")


def test_the_ends_of_a_window_count_as_dispatches() -> None:
    times = [90, 101, 102, 106, 109, 200]
    found = quiet(times, 100, 110)
    assert found._replace(p999=4.0) == Quiet(4, 4.0, 4, 400.0)
    assert found.p999 == pytest.approx(3.996)  # of 1, 1, 1, 3, 4
    assert quiet(times, 100, 199).longest == 90
    with pytest.raises(ValueError, match="no dispatch from 110 to 120"):
        quiet(times, 110, 120)


def test_a_killed_leader_stands_still_from_its_last_dispatch() -> None:
    stamps = [(100, 1), (101, 1), (2_105, 2), (2_106, 2)]
    assert standstill(stamps, 103, 1) == (2_004, 101, 2_105)
    # the stamp of the event may be the dispatch's own millisecond
    assert standstill(stamps, 101, 1) == (2_004, 101, 2_105)


def test_what_a_stopping_leader_still_dispatches_does_not_end_the_outage() -> None:
    """Seen to fail with the first dispatch after the event, whoever made it: 1 ms."""
    stamps = [(100, 1), (101, 1), (102, 1), (140, 2), (141, 2)]
    assert standstill(stamps, 100, 1) == (38, 102, 140)


def test_the_longest_pause_on_the_way_counts_even_before_the_hand_over() -> None:
    stamps = [(100, 1), (160, 1), (170, 2)]
    assert standstill(stamps, 100, 1) == (60, 160, 170)


def test_a_gap_before_which_nothing_had_come_is_the_producers() -> None:
    def at(ms: int, submitted: int) -> Dispatch:
        return dispatch(ms, 1, f"t{ms}")._replace(submitted=submitted)

    assert waiting([at(100, 99), at(110, 109), at(111, 110)], 0, 200) == 1
    assert waiting([at(100, 99), at(110, 101), at(111, 110)], 0, 200) == 9
    # the second had come first, and the longest wait began before the gap
    assert waiting([at(100, 99), at(110, 109), at(111, 90)], 0, 200) == 10
    assert waiting([at(100, 99), at(150, 99), at(152, 151), at(154, 153)], 120, 200) == 1


def test_without_a_later_epoch_nothing_has_recovered() -> None:
    assert standstill([(100, 1), (101, 1)], 100, 1) is None
    assert standstill([(101, 2)], 100, 1) is None


def course(number: int, began: float, event: int, **others: Any) -> Course:
    return Course("crash", 2.0, number, began, event=event, shown=event, **others)


RECORDS = [
    *(dispatch(ms, 1, f"a{ms}") for ms in (500, 990, 1_000)),
    *(dispatch(ms, 2, f"b{ms}") for ms in (2_900, 3_500, 4_990, 5_000)),
    dispatch(7_010, 3, "c1"),
    dispatch(7_011, 2, "late", seq=1),
]
COURSES = [
    course(0, 10.0, 1_000, epoch=1, free=2_880, ended=3_500, leaders=1, samples=4),
    course(1, 14.0, 5_000, epoch=2, free=7_000, ended=7_500, leaders=1, samples=4),
]
GRANTS = Grants({1: 100, 2: 2_885, 3: 7_004}, {})


def test_each_trial_has_its_outage_and_the_two_terms_of_it() -> None:
    first, second = trials(COURSES, RECORDS, {}, [], GRANTS)
    assert (first.outage_ms, first.lease_ms, first.grant_ms, first.act_ms) == (1_900, 1_880, 5, 20)
    assert (second.outage_ms, second.lease_ms, second.grant_ms, second.act_ms) == (
        2_010,
        2_000,
        4,
        10,
    )
    # of the second before the event
    assert (first.dispatches, second.dispatches) == (3, 2)


def test_a_released_lease_is_free_when_that_is_announced() -> None:
    stopped = replace(COURSES[0], arm="graceful", free=None)
    (found,) = trials([stopped], RECORDS, {}, [], Grants({2: 2_885}, {1: 2_870}))
    assert (found.lease_ms, found.grant_ms, found.act_ms) == (1_870, 15, 30)


def test_each_trial_answers_for_the_tasks_accepted_in_it() -> None:
    accepted = {"a500": 9.0, "a990": 10.5, "gone": 13.9, "b2900": 14.0, "c1": 15.0, "late": 16.0}
    records = [*RECORDS, dispatch(7_400, 3, "c1")]
    starts = [*accepted, "a990"]
    first, second = trials(COURSES, records, accepted, starts, GRANTS)
    assert (first.tasks, first.lost, first.duplicates, first.executed_twice) == (3, 1, 0, 1)
    assert (second.tasks, second.lost, second.duplicates, second.executed_twice) == (3, 0, 1, 0)
    assert (first.stale_dispatches, second.stale_dispatches) == (0, 1)


def test_a_trial_without_recovery_says_how_long_it_was_watched() -> None:
    """What is dispatched after the watch, by whom somebody started by hand, is no recovery."""
    alone = replace(COURSES[0], arm="single", ended=2_800)
    (found,) = trials([alone], RECORDS, {}, [], GRANTS)
    assert (found.outage_ms, found.watched_ms, found.act_ms) == (None, 1_800, None)


def test_nothing_happens_in_a_trial_of_none() -> None:
    calm = replace(COURSES[0], arm="none", event=490, ended=1_010)
    (found,) = trials([calm], RECORDS, {}, [], GRANTS)
    assert (found.outage_ms, found.dispatches) == (490, 3)
    assert found.p999_ms == pytest.approx(488.56)


def leading(epoch: float) -> Metrics:
    return {"tq_scheduler_is_leader": float(bool(epoch)), "tq_scheduler_epoch": epoch}


def answers(*several: Metrics) -> Callable[[int], Metrics]:
    left = list(several)
    return lambda port: left.pop(0)


def test_who_claims_to_lead_at_one_moment() -> None:
    """Two claims are two leaders only if the first one still stands after the second."""
    assert claims([1, 2], answers(leading(4), leading(0))) == 1
    assert claims([1, 2], answers(None, leading(0))) == 0
    assert claims([1, 2], answers(leading(4), leading(5), leading(4))) == 2
    # it resigned between the two scrapes, and may lead again in another term
    assert claims([1, 2], answers(leading(4), leading(5), leading(0))) == 1
    assert claims([1, 2], answers(leading(4), leading(5), leading(6))) == 1


def test_trials_are_spread_evenly_over_clusters() -> None:
    assert blocks(15, 5) == [range(5), range(5, 10), range(10, 15)]
    assert blocks(7, 5) == [range(4), range(4, 7)]
    assert blocks(1, 5) == [range(1)]


LOG = """\
2026-01-01 WARNING no longer leading: owner=h-1-a epoch=12 reason="the lease is gone"
2026-01-01 WARNING no longer leading: owner=h-1-a epoch=1 reason="refused by the fence"
2026-01-01 WARNING no longer leading: owner=h-1-a epoch=3 reason="something else"
2026-01-01 WARNING no longer leading: owner=h-1-a epoch=4 reason="a newer epoch is in use"
"""


def test_what_ended_a_term_is_read_from_the_log() -> None:
    assert reason(LOG, 12) == "lease"
    assert reason(LOG, 1) == "fence"
    assert reason(LOG, 4) == "worker"
    assert reason(LOG, 3) == "something else"
    assert reason(LOG, 2) == ""


def figures(arm: str, **changed: Any) -> dict[str, Any]:
    """Return the figures of one cell of two trials, the second of which is ``changed``."""
    courses = [replace(each, arm=arm) for each in COURSES]
    found = trials(courses, RECORDS[:-1], {"a500": 9.0, "c1": 15.0}, [], GRANTS)
    return cell(2.0, [found[0], replace(found[1], **changed)], [])


def test_the_figures_of_a_cell() -> None:
    found = figures("crash")
    assert (found["median_ms"], found["min_ms"], found["max_ms"]) == (1_955, 1_900, 2_010)
    assert found["act_ms"] == {"median": 15, "min": 10, "max": 20}
    assert (found["trials"], found["recovered"], found["tasks"], found["samples"]) == (2, 2, 2, 8)
    assert failures("crash", found) == []


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"lost": 2}, ["2 lost"]),
        ({"duplicates": 1}, ["1 settled twice"]),
        ({"executed_twice": 1}, ["1 executed twice"]),
        ({"stale_dispatches": 3}, ["3 dispatched under an old epoch"]),
        ({"leaders": 2}, ["2 leaders at once"]),
        ({"samples": 0}, []),
        ({"outage_ms": None, "watched_ms": 9_000}, ["1 trials not recovered"]),
        ({"outage_ms": 2_201}, ["longest 2,201 ms > 2,200 ms"]),
    ],
)
def test_what_a_trial_did_not_keep_is_named(changed: dict[str, Any], words: list[str]) -> None:
    assert failures("crash", figures("crash", **changed)) == words


def test_a_trial_without_recovery_is_in_no_median() -> None:
    found = figures("crash", outage_ms=None, watched_ms=9_000)
    assert (found["median_ms"], found["recovered"], found["watched_ms"]) == (1_900, 1, 9_000)


def test_each_arm_has_its_goal() -> None:
    assert failures("graceful", figures("graceful")) == ["median 1,955 ms > 50 ms"]
    assert failures("graceful", figures("graceful"), goals=False) == []
    assert failures("pause", figures("pause")) == []
    assert failures("single", figures("single")) == ["2 trials recovered without anybody to do it"]
    calm = {**figures("crash"), "max_ms": 11.0, "p999_ms": 4.0, "rate": {"min": 990.0}}
    assert failures("none", calm) == ["990 dispatches/s", "longest gap 11 ms > 10 ms"]


def test_a_cell_with_a_broken_promise_fails() -> None:
    found = {**figures("crash"), "violations": ["epochs: 1-1"]}
    assert failures("crash", found) == ["epochs: 1-1"]


@pytest.mark.parametrize("arm", ["none", "crash", "single"])
def test_a_cluster_that_fell_over_fails_its_arm_and_has_no_figures(arm: str) -> None:
    found = cell(2.0, [], ["waited 120 s in vain for a standby to take over"])
    assert failures(arm, found) == ["waited 120 s in vain for a standby to take over"]
    assert (found["median_ms"], found["lease_ms"], found["trials"]) == (None, None, 0)
