"""The cells of a head-to-head: all of them, whole repetitions first, no arm always ahead."""

from __future__ import annotations

from bench.experiments.headtohead.backlog import backlog_of
from bench.experiments.headtohead.plan import FULL, OURS, QUICK, STOCK, cells
from bench.experiments.headtohead.tuning import kind_of
from bench.harness.cell import Cell, Profile

ARMS = (*STOCK, *OURS)


def test_the_whole_has_every_arm_everywhere_three_and_five_times() -> None:
    found = cells(FULL, ARMS, Profile("full", 16.0, repetitions=5))
    assert len(found) == len(set(found)) == len(ARMS) * (7 * 3 + 4 * 5)
    assert len({cell.name for cell in found}) == len(found)


def test_what_is_interrupted_has_whole_repetitions() -> None:
    found = cells(FULL, ARMS, Profile("full", 16.0, repetitions=5))
    assert [cell.repetition for cell in found] == sorted(cell.repetition for cell in found)


def test_the_order_of_the_arms_turns_round() -> None:
    """Seen to fail without the turning: ``redis`` was first in every repetition."""
    found = cells(QUICK, ("redis", "tq-wfq"), Profile("two", 8.0, repetitions=2))
    uniform = [cell.arm for cell in found if cell.workload == "uniform"]
    assert uniform == ["redis", "tq-wfq", "tq-wfq", "redis"]


def test_a_backlog_has_no_load_and_one_workload_a_duration() -> None:
    found = cells(QUICK, ("redis",), Profile("quick", 8.0))
    assert found[0] == Cell("redis", "fixed-0ms", 0.0, "sleep", 0)
    assert [cell.workload for cell in found] == [
        "fixed-0ms", "fixed-5ms", "fixed-50ms", "uniform", "multi_tenant",
    ]  # fmt: skip


def test_a_backlog_keeps_ideal_slots_busy_for_its_span() -> None:
    works = backlog_of(0.02, slots=16, span=3.0, most=12_000, seed=1)
    assert len(works) == 2_400
    assert {(work.at, work.seconds) for work in works} == {(0.0, 0.02)}


def test_tasks_that_take_no_time_are_as_many_as_allowed() -> None:
    assert len(backlog_of(0.0, slots=16, span=3.0, most=1_000, seed=1)) == 1_000
    assert len(backlog_of(0.001, slots=16, span=3.0, most=1_000, seed=1)) == 1_000


def test_three_kinds_of_cells_have_three_prefetch_settings() -> None:
    kinds = [kind_of(name) for name in ("fixed-0ms", "fixed-2ms", "fixed-5ms", "uniform")]
    assert kinds == ["short", "short", "long", "arrivals"]
