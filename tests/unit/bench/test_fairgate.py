"""The fairness gate's arithmetic on hand-made windows, and what it refuses to judge or to pass."""

from __future__ import annotations

from typing import Any

import pytest

from bench.experiments.fairgate import run
from bench.experiments.fairgate.gate import Bounds, judge, refusals
from bench.experiments.fairgate.observe import observe, peak
from bench.harness.errors import BenchError
from bench.harness.record import Row
from tests.unit.bench.lab_rows import make_row, make_run

WEIGHTS = {"a": 2.0, "b": 1.0}
JAIN, ABOVE = "Jain's index of service / weight", "above the baseline's index"
THROUGHPUT = "throughput / baseline's"


def row(
    tenant: str,
    submitted: float,
    started: float | None,
    seconds: float = 0.1,
    cost: float = 100.0,
) -> Row:
    finished = None if started is None else started + seconds
    return Row(
        0, tenant, 0, cost, seconds, None, submitted, submitted, 0.0, started, finished,
        0 if started is None else 1, "missing" if started is None else "completed",
    )  # fmt: skip


def served(of: dict[str, int], seconds: float = 2.0, cost: float = 100.0) -> list[Row]:
    """So many tasks of each tenant, started evenly from second 1 on, and one left waiting."""
    rows = [
        row(tenant, 0.0, 1 + seconds * number / count, cost=cost)
        for tenant, count in of.items()
        for number in range(count)
    ]
    return rows + [row(tenant, 0.0, None) for tenant in of]


def test_starts_and_service_are_those_of_the_window() -> None:
    rows = [row("a", 0, 0.99), row("a", 0, 1.0), row("b", 0, 2.99, cost=50.0), row("b", 0, 3.0)]
    seen = observe(rows, WEIGHTS, 1.0, 3.0)
    assert seen.starts == {"a": 1, "b": 1}
    assert seen.service == {"a": 100.0, "b": 50.0}
    assert seen.jain == 1.0  # 100 / 2 and 50 / 1
    assert seen.rate == 1.0  # one began before the window and ended in it, one ended after it
    assert seen.busy == pytest.approx((0.09 + 0.1 + 0.01) / 2)


def test_the_index_counts_a_tenant_without_service() -> None:
    seen = observe(served({"a": 40}), WEIGHTS, 1.0, 3.0)
    assert seen.service["b"] == 0
    assert seen.jain == 0.5


def test_what_never_starts_waits_for_ever_and_what_comes_late_does_not() -> None:
    rows = [row("a", 0.0, None), row("b", 2.0, None)]
    seen = observe(rows, WEIGHTS, 1.0, 3.0)
    assert seen.backlogged["a"] == 1.0
    assert seen.backlogged["b"] == pytest.approx(0.5, abs=0.02)


def test_a_gap_counts_only_while_work_waits() -> None:
    rows = [
        # started at 1.2 and 2.4, the second one submitted at 1.4: a second of waiting
        row("a", 0.0, 1.2), row("a", 1.4, 2.4),
        # waits all the window, nothing started before 2.1 and after it
        row("b", 0.0, 2.1), row("b", 0.5, None),
    ]  # fmt: skip
    seen = observe(rows, WEIGHTS, 1.0, 3.0)
    assert seen.gap == {"a": pytest.approx(1.0), "b": pytest.approx(1.1)}
    assert seen.starved == {"a": 2, "b": 3}  # 1.0; 1.1 and 0.9, in windows of 0.5


def test_the_peak_is_of_the_whole_run() -> None:
    rows = [row("a", 0.0, at, seconds=1.0) for at in (0.1, 0.2, 0.3, 2.0, 3.0)]
    assert peak(rows) == 3  # the one that ends at 3.0 leaves before the next one starts
    assert observe(rows, WEIGHTS, 1.0, 3.0).peak == 3


def test_a_fair_window_passes() -> None:
    ours = observe(served({"a": 40, "b": 20}), WEIGHTS, 1.0, 3.0)
    stock = observe(served({"a": 62, "b": 2}), WEIGHTS, 1.0, 3.0)
    assert refusals(ours) == []
    assert [rule.name for rule in judge(ours, stock, limit=99) if not rule.passed] == []


@pytest.mark.parametrize(
    "of, seconds, word",
    [
        # 20 and 9 starts
        ({"a": 20, "b": 9}, 2.0, "29 tasks started, at least 30"),
        # all of b is gone halfway through the window
        ({"a": 40, "b": 20}, 1.0, "b had work waiting in 46% of the samples"),
    ],
)
def test_a_window_with_too_little_is_refused(of, seconds, word) -> None:
    """Seen to fail: with the checks for starts and for backlog left out in turn."""
    rows = [each for each in served(of, seconds) if seconds == 2.0 or each.started is not None]
    if seconds != 2.0:
        rows.append(row("a", 0.0, None))
    why = refusals(observe(rows, WEIGHTS, 1.0, 3.0))
    assert len(why) == 1
    assert word in why[0]


@pytest.mark.parametrize(
    "of, limit, failed",
    [
        ({"a": 12, "b": 48}, 99, [JAIN, ABOVE]),
        ({"a": 24, "b": 12}, 99, [THROUGHPUT]),
        ({"a": 40, "b": 20}, 1, ["most tasks at a time"]),
    ],
)
def test_a_rule_that_does_not_hold_is_named(of, limit, failed) -> None:
    """Seen to fail: with each rule taken out of the list in turn."""
    ours = observe(served(of), WEIGHTS, 1.0, 3.0)
    stock = observe(served({"a": 62, "b": 2}), WEIGHTS, 1.0, 3.0)
    assert [rule.name for rule in judge(ours, stock, limit) if not rule.passed] == failed


def test_starvation_fails_the_gate() -> None:
    ours = observe(served({"a": 40, "b": 3}), {"a": 40.0, "b": 3.0}, 1.0, 3.0)
    stock = observe(served({"a": 43, "b": 0}), {"a": 40.0, "b": 3.0}, 1.0, 3.0)
    assert ours.jain == pytest.approx(1.0)
    failed = [rule.name for rule in judge(ours, stock, 99, Bounds(above=0.0)) if not rule.passed]
    assert failed == ["windows of starvation"]


def test_the_baseline_judged_as_ours_fails() -> None:
    """What strict priority does is what the gate is there to refuse."""
    stock = observe(served({"a": 62, "b": 2}), WEIGHTS, 1.0, 3.0)
    failed = {rule.name for rule in judge(stock, stock, 99) if not rule.passed}
    assert {JAIN, ABOVE} <= failed


def test_a_run_that_was_not_stopped_as_asked_is_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen to pass instead of fail: a producer that dies truncates a run as well."""
    reasons = {"tq-wfq": "stopped after 4.3 s as asked", "redis": "producer-redis ended"}
    monkeypatch.setattr(
        run, "run_cell",
        lambda cell, *_, **__: make_run([make_row()], ending="truncated", reason=reasons[cell.arm]),
    )  # fmt: skip
    lab: Any = None
    assert run.contend(lab, "tq-wfq", seed=1, repetition=0, end=4.0).ending == "truncated"
    with pytest.raises(BenchError, match="redis truncated: producer-redis ended"):
        run.contend(lab, "redis", seed=1, repetition=0, end=4.0)


@pytest.mark.parametrize(
    "arguments, words",
    [({"seed": -1, "seconds": 1.0}, "seed"), ({"seed": 1, "seconds": 1.0, "load": 1e9}, "load")],
)
def test_no_plan_is_one_line(arguments: dict[str, float], words: str) -> None:
    with pytest.raises(BenchError, match=words) as caught:
        run.plan(**arguments)  # type: ignore[arg-type]
    assert "\n" not in caught.value.message
