"""Pass rules: which cells they compare, what they allow, and when they keep silent."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.harness.record import Row
from bench.harness.summary import CellSummary, summarise
from bench.harness.verdicts import Verdict, judge
from bench.harness.verdicts.stability import median_shift
from bench.harness.verdicts.verdict import Measured, Rule, apply
from tests.unit.bench.lab_rows import make_row, make_run

FOUR = ("tq-fifo", "tq-priority", "tq-edf", "tq-wfq")


def verdict(name: str, found: list[Verdict]) -> Verdict:
    matching = [each for each in found if each.name == name]
    assert len(matching) == 1, [each.name for each in found]
    return matching[0]


def cell(waits: list[float], ideal: list[float] | None = None, **more) -> CellSummary:
    """A cell of tasks that wait so long; the tenant of the first half is the loud one.

    They were planned to come over ``arrivals`` seconds, long enough for every bound.
    """
    columns = more.pop("columns", {})
    arrivals = more.pop("arrivals", 6.0)

    def rows(chosen: list[float]) -> list[Row]:
        loud = len(chosen) // 2 + 1
        return [
            make_row(
                job, wait=wait, held=1.0, tenant="big" if job < loud else "small",
                scheduled=arrivals * job / (len(chosen) - 1),
                **{name: values[job] for name, values in columns.items()},
            )
            for job, wait in enumerate(chosen)
        ]  # fmt: skip

    return summarise(make_run(rows(waits), rows(ideal or waits), **more))


# --- one rule -------------------------------------------------------------------------------------

RULE: Rule[float | None] = Rule("r", "some cells", lambda x: None if x is None else Measured(x, 1))


def test_the_median_over_the_repetitions_that_have_a_figure_is_judged() -> None:
    rule = Rule("r", "some cells", RULE.measure, at_most=2.0, at_least=1.0)
    found = apply(rule, [1.5, None, 9.0, 1.2])
    assert found == Verdict("r", 1.5, 1.2, 9.0, 1, "at least 1 and at most 2", 3, "pass", "")
    assert apply(rule, [0.9, 3.0]).outcome == "pass"
    assert apply(rule, [1.0]).outcome == apply(rule, [2.0]).outcome == "pass"
    assert apply(rule, [0.9]).outcome == apply(rule, [2.1]).outcome == "fail"


def test_without_cells_there_is_no_verdict() -> None:
    found = apply(RULE, [None])
    assert (found.outcome, found.measured) == ("not judged", None)
    assert found.why == "no complete cells to compare, or figures of 0: some cells"


def test_without_a_bound_a_figure_is_published() -> None:
    found = apply(RULE, [3.0])
    assert (found.outcome, found.measured, found.bound) == ("not judged", 3.0, "")
    assert found.why == "published, without a bound"


# --- soundness ------------------------------------------------------------------------------------


def test_cells_that_are_not_complete_are_counted_and_not_averaged() -> None:
    fast = cell([0.0, 1.0], arm="tq-wfq", workload="multi_tenant")
    cut = cell([9.0, 9.0], arm="tq-wfq", workload="multi_tenant", repetition=1, ending="timed-out")
    found = judge("matrix", [fast, cut])
    assert verdict("cells that are not complete", found).outcome == "fail"
    assert verdict("tasks of complete cells without an outcome", found).outcome == "pass"


def test_an_experiment_without_rules_is_judged_by_its_soundness() -> None:
    late = summarise(make_run([make_row(lag=0.06)]))
    found = judge("anything", [late])
    assert verdict("producer's p99 lag in s, worst cell", found).outcome == "fail"
    lost = summarise(make_run([make_row(outcome="missing", started=None, finished=None)]))
    assert (
        verdict("tasks of complete cells without an outcome", judge("anything", [lost])).outcome
        == "fail"
    )
    assert judge("anything", []) == []


def test_a_machine_that_others_used_is_a_finding() -> None:
    name = "cores that others kept busy, worst cell"
    rows = [make_row()]
    alone, beside = (summarise(make_run(rows, others=cores)) for cores in (0.05, 0.9))
    assert verdict(name, judge("anything", [alone])).outcome == "pass"
    found = verdict(name, judge("anything", [alone, beside]))
    assert (found.measured, found.outcome) == (0.9, "fail")
    unknown = judge("anything", [summarise(make_run(rows))])
    assert verdict(name, unknown).outcome == "not judged"


def test_bounds_do_not_hold_for_attempts_that_were_abandoned() -> None:
    broken = cell([9.0, 9.0, 9.0], [0.0, 0.0, 0.0], arm="tq-edf", workload="heavy_tailed",
                  columns={"deadline": [1.0, 1.0, 99.0], "executions": [1, 2, 1]})  # fmt: skip
    name = "edf, heavy_tailed: missed deadlines / fifo's"
    fifo = cell([9.0] * 3, arm="tq-fifo", workload="heavy_tailed", columns={"deadline": [1.0] * 3})
    judged = judge("matrix", [broken, fifo], failure=0.2)
    found = verdict(name, judged)
    assert [found.measured, found.outcome] == [pytest.approx(2 / 3), "not judged"]
    assert "abandoned" in found.why
    repeats = verdict("executions beyond a task's first", judged)
    assert [repeats.measured, repeats.outcome] == [1, "not judged"]


def test_a_task_that_ran_twice_without_being_asked_to_is_a_finding() -> None:
    """Seen to fail: many repeats were taken for abandoned attempts, and no bound was applied."""
    twice = cell([9.0, 9.0], arm="tq-fifo", columns={"executions": [2, 2]})
    found = judge("control", [twice, cell([9.0, 9.0], arm="tq-none")])
    assert verdict("executions beyond a task's first", found).outcome == "fail"
    assert verdict("uniform: throughput, fifo / none", found).outcome == "pass"


def test_bounds_do_not_hold_before_anything_has_piled_up() -> None:
    cells = [cell([9.0, 9.0], arm=arm, arrivals=2.0) for arm in ("tq-none", "tq-fifo")]
    found = verdict("uniform: throughput, fifo / none", judge("control", cells))
    assert (found.measured, found.outcome) == (1.0, "not judged")
    assert found.why == "the bound is for 5 s of arrivals and more"


# --- the matrix -----------------------------------------------------------------------------------


def test_the_spread_by_level_is_compared_with_the_ideal_one() -> None:
    levels = {"priority": [0, 0, 4, 4]}
    cells = [
        cell([59.0, 59.0, real, real], [59.0, 59.0, 0.0, 0.0], columns=levels,
             arm="tq-priority", workload="uniform", repetition=i)
        for i, real in enumerate([0.1, 0.5, 0.0])
    ]  # fmt: skip
    found = judge("matrix", cells)
    published = verdict("priority, uniform: slowest priority level's p95 / fastest level's", found)
    assert published.ideal == 60
    assert published.measured == pytest.approx(60 / 1.1)
    judged = verdict("priority, uniform: that spread / the ideal server's", found)
    assert judged.measured == pytest.approx(1 / 1.1)
    assert [judged.least, judged.greatest] == [pytest.approx(1 / 1.5), 1.0]
    assert judged.outcome == "pass"
    assert verdict(judged.name, judge("matrix", cells[1:2])).outcome == "fail"


def test_fair_sharing_is_judged_on_the_small_tenants_and_on_the_dominant_one() -> None:
    fifo = cell([10.0, 10.0, 10.0], arm="tq-fifo", workload="multi_tenant")
    wfq = cell([10.2, 10.2, 0.1], [10.1, 10.1, 0.0], arm="tq-wfq", workload="multi_tenant")
    found = judge("matrix", [fifo, wfq])
    small = verdict("wfq, multi_tenant: small tenants' p95 / the ideal server's", found)
    assert [small.measured, small.outcome] == [pytest.approx(1.1), "pass"]
    gain = verdict("multi_tenant: small tenants' p95 under fifo / under wfq", found)
    assert [gain.measured, gain.ideal] == [pytest.approx(10.0), pytest.approx(11.0)]
    price = verdict(
        "multi_tenant: what wfq adds to the dominant tenant's p95 under fifo, as a share", found
    )
    assert [price.measured, price.ideal] == [pytest.approx(0.2 / 11), pytest.approx(0.1 / 11)]
    above = verdict("multi_tenant: that share minus the ideal server's", found)
    assert [above.measured, above.outcome] == [pytest.approx(0.1 / 11), "pass"]


def test_edf_is_judged_on_its_misses_and_its_longest_wait() -> None:
    due = {"deadline": [2.0, 2.0, 2.0, 2.0]}
    cells = [
        cell([0.0, 0.0, 1.5, longest], arm=arm, workload="heavy_tailed", columns=due)
        for arm, longest in zip(FOUR, (5.0, 6.0, 7.0, 5.0), strict=True)
    ]
    cells[2] = cell([0.0, 0.0, 0.0, 7.0], arm="tq-edf", workload="heavy_tailed", columns=due)
    found = judge("matrix", cells)
    misses = verdict("edf, heavy_tailed: missed deadlines / fifo's", found)
    assert [misses.measured, misses.ideal, misses.outcome] == [0.5, 0.5, "pass"]
    assert verdict("edf, heavy_tailed: missed deadlines / the ideal server's", found).measured == 1
    longest = verdict("edf, heavy_tailed: longest wait / longest of the other policies", found)
    assert [longest.measured, longest.outcome] == [pytest.approx(7 / 6), "pass"]


def test_throughput_and_jain_take_all_four_policies() -> None:
    cells = [
        cell([0.0, 0.0, end], arm=arm, workload="multi_tenant")
        for arm, end in zip(FOUR, (9.0, 9.0, 9.0, 9.2), strict=True)
    ]
    found = judge("matrix", cells)
    speed = verdict("multi_tenant: throughput, fastest / slowest policy", found)
    assert [speed.measured, speed.outcome] == [pytest.approx(1.02), "fail"]
    jain = verdict("multi_tenant: Jain over service, greatest - least of the policies", found)
    assert [jain.measured, jain.outcome] == [pytest.approx(0.0), "pass"]
    partial = judge("matrix", cells[:3])
    assert verdict(speed.name, partial).outcome == "not judged"


# --- the others -----------------------------------------------------------------------------------


def test_what_centralisation_costs() -> None:
    none = cell([0.0, 8.0], arm="tq-none", worker_cpu=2.0, scheduler_cpu=0.0, server_us=100.0)
    fifo = cell([0.0, 8.0], arm="tq-fifo", worker_cpu=2.0, scheduler_cpu=0.2, server_us=200.0)
    found = judge("control", [none, fifo])
    assert verdict("uniform: throughput, fifo / none", found).outcome == "pass"
    cost = verdict("uniform: CPU and server time per task, fifo / none", found)
    assert cost.measured == pytest.approx((1_000_000 + 100_000 + 100) / (1_000_000 + 50))
    assert cost.outcome == "fail"


def test_where_in_a_sweep_the_policy_matters() -> None:
    slowest = {0.5: 1.01, 1.0: 3.0, 2.0: 1.5}
    cells = [
        cell([1.0, end], arm=arm, load=load)
        for load, worst in slowest.items()
        for arm, end in zip(FOUR, (1.0, worst, 1.0, 1.0), strict=True)
    ]
    found = judge("sweep", cells)
    light = verdict("uniform: spread of p99 over the policies at 0.5 x, as a share", found)
    assert [light.measured, light.outcome] == [pytest.approx(0.00495), "pass"]
    peak = verdict("uniform: load at which that spread is greatest", found)
    assert [peak.measured, peak.ideal, peak.outcome] == [1.0, 1.0, "pass"]
    assert verdict("uniform: edf's longest wait in s at 2 x", found).measured == 1.0
    two = judge("sweep", [each for each in cells if each.cell.load < 2])
    assert verdict(peak.name, two).outcome == "not judged"


def test_sleeping_and_working_cells_are_kept_apart() -> None:
    cells = [
        cell([20.0, 20.0, wait], arm=arm, workload="multi_tenant", exec_=how)
        for how, arm, wait in (
            ("sleep", "tq-fifo", 19.0), ("sleep", "tq-wfq", 0.0),
            ("cpu", "tq-fifo", 19.0), ("cpu", "tq-wfq", 9.0),
        )
    ]  # fmt: skip
    found = judge("realwork", cells)
    asleep = verdict("multi_tenant, sleep: small tenants' p95 under fifo / under wfq", found)
    assert (asleep.measured, asleep.outcome) == (20.0, "pass")
    cpu = verdict("multi_tenant, cpu: small tenants' p95 under fifo / under wfq", found)
    assert (cpu.measured, cpu.outcome) == (2.0, "fail")


def test_edfs_advantage_asleep_and_on_a_processor() -> None:
    cells = [
        cell([0.0, wait], arm=arm, workload="heavy_tailed", exec_=how,
             columns={"deadline": [5.0, 5.0]})
        for how, arm, wait in (
            ("sleep", "tq-fifo", 9.0), ("sleep", "tq-edf", 0.0),
            ("cpu", "tq-fifo", 9.0), ("cpu", "tq-edf", 9.0),
        )
    ]  # fmt: skip
    found = judge("realwork", cells)
    shrinks = verdict("heavy_tailed: edf's advantage asleep - on a processor", found)
    assert [shrinks.measured, shrinks.outcome] == [0.5, "pass"]


def test_stock_arms_are_compared_with_fair_sharing() -> None:
    cells = [
        cell([9.0, 9.0, wait], arm=arm, workload="multi_tenant", repetition=i)
        for i in range(2)
        for arm, wait in (("redis", 9.0), ("tq-wfq", 1.0), ("tq-fifo", 9.0))
    ]
    found = judge("headtohead", cells)
    gain = verdict("multi_tenant: small tenants' p95, redis / tq-wfq", found)
    assert (gain.measured, gain.repetitions, gain.outcome) == (5.0, 2, "not judged")
    assert verdict("multi_tenant: throughput, tq-wfq / redis", found).measured == 1.0
    assert not [each for each in found if "tq-fifo" in each.name]


# --- how many repetitions -------------------------------------------------------------------------


def test_all_values_are_not_shifted_and_few_of_even_ones_neither() -> None:
    assert median_shift([1.0, 2.0, 3.0], 3) == 0.0
    assert median_shift([2.0] * 9, 1) == 0.0
    assert median_shift([1.0, 2.0], 3) is None
    assert median_shift([0.0, 0.0, 1.0], 2) is None


def test_one_of_five_is_shifted_by_the_median_distance_from_the_middle() -> None:
    # The distances of 6, 8, 10, 12, 14 from 10 are 4, 2, 0, 2, 4.
    assert median_shift([6.0, 8.0, 10.0, 12.0, 14.0], 1) == pytest.approx(0.2)


@settings(max_examples=20, deadline=None)  # each draws thousands of times
@given(st.lists(st.floats(1, 100), min_size=6, max_size=25))
def test_more_repetitions_do_not_shift_more(values: list[float]) -> None:
    few, most = median_shift(values, 1), median_shift(values, len(values))
    assert few is not None
    assert most == 0.0 <= few
    assert median_shift([7 * value for value in values], 1) == pytest.approx(few, abs=1e-9)


def test_five_repetitions_are_judged_by_what_more_of_them_say() -> None:
    def cells(count: int) -> list[CellSummary]:
        return [
            cell([1.0, 1.0 + 0.1 * (i % 3)], arm="tq-wfq", workload="multi_tenant", repetition=i)
            for i in range(count)
        ]

    name = "wfq, multi_tenant: p99, median shift of 5 repetitions"
    found = verdict(name, judge("repetitions", cells(25)))
    assert (found.outcome, found.repetitions) == ("pass", 25)
    assert found.measured is not None
    assert 0 <= found.measured < 0.05
    assert found.why.startswith("median shift from all repetitions: 1 ")
    assert "20 0.00%" in found.why
    assert verdict(name, judge("repetitions", cells(10))).outcome == "not judged"
    beside = verdict(
        "wfq, multi_tenant: p99 / the ideal server's, median shift of 5 repetitions",
        judge("repetitions", cells(25)),
    )
    assert beside.measured == 0.0
