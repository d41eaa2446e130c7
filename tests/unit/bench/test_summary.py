"""A cell in numbers: what stands where in the lines of the tables."""

from __future__ import annotations

import pytest

from bench.harness.summary import summarise
from tests.unit.bench.lab_rows import make_row, make_run

ROWS = [
    make_row(0, tenant="big", priority=10, wait=1.0, lag=0.001),
    make_row(1, tenant="big", priority=10, wait=2.0, lag=0.002),
    make_row(2, tenant="big", priority=2, wait=3.0, lag=0.003),
    make_row(3, tenant="small", priority=2, wait=4.0, lag=0.101),
]
IDEAL = [row._replace(started=0.0, finished=1.0) for row in ROWS]


def test_one_line_of_the_aggregate() -> None:
    line = summarise(make_run(ROWS, IDEAL, arm="tq-wfq", repetition=2, reason="r")).flat()
    wanted = {
        "arm": "tq-wfq", "workload": "uniform", "load": 1.25, "exec": "sleep", "repetition": 2,
        "seed": 3, "slots": 2, "ending": "complete", "reason": "r",
        "tasks": 4, "wait_max": 4.0, "ideal_wait_max": 0.0, "makespan": 5.0, "ideal_makespan": 1.0,
        "quiet_latency_p95": 5.0, "ideal_quiet_latency_p95": 1.0,
        "lag_max": 0.101,
    }  # fmt: skip
    assert {name: line[name] for name in wanted} == wanted
    assert line["lag_p99"] == pytest.approx(0.003 + 0.97 * 0.098)


def test_costs_are_microseconds_per_completed_task() -> None:
    rows = [*ROWS[:2], ROWS[2]._replace(outcome="missing", started=None, finished=None)]
    cell = summarise(
        make_run(
            rows, worker_cpu=1.0, scheduler_cpu=0.1, server_cpu=0.2, producer_cpu=0.4, server_us=50
        )
    )
    assert cell.worker_us == 500_000
    assert cell.scheduler_us == 50_000
    assert cell.server_cpu_us == 100_000
    assert cell.producer_us == 200_000
    assert cell.server_us == 25
    nothing = summarise(make_run([rows[2]], worker_cpu=1.0))
    assert nothing.worker_us is None


def test_a_server_without_an_account_of_its_own_did_not_work_for_nothing() -> None:
    """Seen to fail: a broker looked as if its commands took no time."""
    cell = summarise(make_run(ROWS, server_cpu=0.2, server_us=0.0))
    assert (cell.server_us, cell.server_cpu_us) == (None, 50_000)
    assert cell.flat()["server_us"] is None


def test_tenants_by_size_and_priorities_by_urgency() -> None:
    cell = summarise(make_run(ROWS, IDEAL))
    assert [(t["tenant"], t["tasks"], t["ideal_wait_p50"]) for t in cell.flat_tenants()] == [
        ("big", 3, 0.0),
        ("small", 1, 0.0),
    ]
    assert [(p["priority"], p["wait_max"]) for p in cell.flat_priorities()] == [
        ("2", 4.0),
        ("10", 2.0),
    ]
    assert cell.flat_tenants()[0]["arm"] == "tq-fifo"


def test_quiet_tenants_are_all_others_where_one_sends_more_than_half() -> None:
    half = [ROWS[0], ROWS[1], ROWS[3], ROWS[3]._replace(job=4, tenant="c")]
    assert summarise(make_run(half)).quiet is None
    assert summarise(make_run(half)).flat()["quiet_wait_p95"] is None
    most = [*half, ROWS[2]]
    cell = summarise(make_run(most))
    assert cell.quiet is not None
    assert cell.quiet.real.tasks == 2


def test_every_line_has_the_same_columns() -> None:
    full, empty = summarise(make_run(ROWS)), summarise(make_run([]))
    assert list(full.flat()) == list(empty.flat())


def test_weights_are_those_of_the_workload() -> None:
    """chat weighs 2 in llm: what is uneven without weights is even with them."""
    rows = [
        make_row(job, wait=start, held=1.0, tenant=tenant)
        for job, (tenant, start) in enumerate(
            [("chat", 0), ("chat", 1), ("agents", 2), ("chat", 3), ("chat", 4), ("agents", 5),
             ("chat", 6), ("agents", 6)]
        )
    ]  # fmt: skip
    rows.append(make_row(9, submitted=60.0, tenant="late"))
    plain, llm = (summarise(make_run(rows, workload=name)) for name in ("uniform", "llm"))
    assert plain.real.jain_weighted == pytest.approx(0.9)
    assert llm.real.jain_weighted == pytest.approx(1.0)


def test_only_complete_cells_count() -> None:
    assert summarise(make_run(ROWS)).counts
    assert not summarise(make_run(ROWS, ending="timed-out")).counts
