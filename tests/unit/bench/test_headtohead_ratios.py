"""Ratios are formed within a repetition, from complete cells, the right way up."""

from __future__ import annotations

from bench.experiments.headtohead.ratios import Ratios
from bench.experiments.headtohead.tables import arrivals, backlogs
from bench.harness.summary import CellSummary, summarise
from tests.unit.bench.lab_rows import make_row, make_run


def cell(arm: str, workload: str, seconds: float, repetition: int = 0, **more) -> CellSummary:
    """Return a cell whose last task ends after ``seconds``; the big tenant sends three of five."""
    tenants = ["big", "big", "big", "small-1", "small-2"]
    rows = [
        make_row(job, tenant=tenant, wait=0.0, held=seconds) for job, tenant in enumerate(tenants)
    ]
    return summarise(
        make_run(rows, arm=arm, workload=workload, load=0.0, repetition=repetition, **more), {}
    )


def test_throughput_is_ours_over_the_rivals() -> None:
    ratios = Ratios([cell("tq-wfq", "fixed-5ms", 2.0), cell("redis", "fixed-5ms", 3.0)])
    assert ratios.throughput("tq-wfq", "redis", "fixed-5ms") == (1.5, 1.5, 1.5)


def test_waiting_is_the_rivals_over_ours() -> None:
    ratios = Ratios([cell("tq-wfq", "multi_tenant", 2.0), cell("redis", "multi_tenant", 6.0)])
    assert ratios.quiet("tq-wfq", "redis", "multi_tenant") == (3.0, 3.0, 3.0)


def test_pairs_are_of_one_repetition() -> None:
    """Seen to fail with medians divided by each other, which is 1 here."""
    ratios = Ratios(
        [
            cell("tq-wfq", "fixed-5ms", seconds, repetition)
            for repetition, seconds in enumerate((1.0, 2.0, 4.0))
        ]
        + [
            cell("redis", "fixed-5ms", seconds, repetition)
            for repetition, seconds in enumerate((2.0, 4.0, 1.0))
        ]
    )
    assert ratios.throughput("tq-wfq", "redis", "fixed-5ms") == (2.0, 0.25, 2.0)


def test_a_cell_that_did_not_end_well_has_no_ratio() -> None:
    ratios = Ratios(
        [cell("tq-wfq", "fixed-5ms", 1.0), cell("redis", "fixed-5ms", 1.0, ending="timed-out")]
    )
    assert ratios.throughput("tq-wfq", "redis", "fixed-5ms") is None
    assert ratios.crossover("tq-wfq", "redis").says == "not measured"


def test_the_tables_say_it_in_words() -> None:
    ratios = Ratios(
        [
            cell("tq-wfq", "fixed-0ms", 2.0), cell("redis", "fixed-0ms", 1.0),
            cell("tq-wfq", "fixed-10ms", 1.0), cell("redis", "fixed-10ms", 1.0),
            cell("tq-wfq", "multi_tenant", 1.0), cell("redis", "multi_tenant", 4.0),
        ]
    )  # fmt: skip
    assert backlogs(ratios, ["tq-wfq"], ["redis"]).splitlines()[-1].split() == [
        "tq-wfq", "/", "redis", "0.5", "1", "below", "9.6", "ms",
    ]  # fmt: skip
    assert arrivals(ratios, ["tq-wfq"], ["redis"]).splitlines()[-1].split() == [
        "tq-wfq", "against", "redis", "4", "4",
    ]  # fmt: skip


def test_the_json_has_every_pair() -> None:
    ratios = Ratios([cell("tq-wfq", "fixed-5ms", 2.0), cell("redis", "fixed-5ms", 3.0)])
    found = ratios.as_json(["tq-wfq"], ["redis"])
    assert found["throughput"] == {
        "tq-wfq": {"redis": {"fixed-5ms": {"median": 1.5, "min": 1.5, "max": 1.5}}}
    }
    assert found["crossover"] == {"tq-wfq": {"redis": {"ms": None, "says": "nowhere"}}}
