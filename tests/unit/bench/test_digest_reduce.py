"""What is kept of a run: medians and ratios by hand, and nothing of cells that do not count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.digest.files import digest, read_csv
from bench.digest.reduce import Place, lines, measured, ratios
from bench.harness.cell import Profile
from bench.harness.errors import BenchError
from bench.harness.record import Run
from bench.harness.results import Results
from bench.harness.summary import summarise
from tests.unit.bench.lab_rows import make_row, make_run


def run(arm: str, repetition: int, *waits: float, workload: str = "uniform", **more) -> Run:
    """Ten tasks for each wait, held for a second, and an ideal server that lets nobody wait."""
    rows = [make_row(job, wait=wait) for job, wait in enumerate(waits)]
    ideal = [row._replace(started=0.0, finished=1.0) for row in rows]
    return make_run(rows, ideal, arm=arm, repetition=repetition, workload=workload, **more)


def at(runs, arm: str, figure: str, scope: str = "all"):
    (found,) = (
        line
        for line in lines(measured(map(summarise, runs)))
        if (line.place.arm, line.place.scope, line.figure) == (arm, scope, figure)
    )
    return found


RUNS = [run("tq-fifo", 0, 3.0), run("tq-fifo", 1, 7.0), run("tq-fifo", 2, 4.0)]


def test_a_figure_is_spread_over_the_repetitions_beside_the_ideal() -> None:
    line = at(RUNS, "tq-fifo", "latency_p95")
    assert line.place == Place("uniform", 1.25, "sleep", "tq-fifo", "all")
    assert line[2:] == (3, 5.0, 4.0, 8.0, 1.0)


def test_only_complete_cells_count() -> None:
    """Seen to fail: with every cell counted."""
    cut = [run("tq-fifo", 3, 99.0, ending="truncated"), run("tq-fifo", 4, 99.0, ending="timed-out")]
    assert at([*RUNS, *cut], "tq-fifo", "latency_p95")[2:] == (3, 5.0, 4.0, 8.0, 1.0)


def test_a_ratio_is_formed_in_each_repetition() -> None:
    """The ratio of the medians would be 0.4."""
    ours = [run("tq-wfq", 0, 1.0), run("tq-wfq", 1, 1.0), run("tq-wfq", 2, 0.5)]
    found = ratios(measured(map(summarise, [*RUNS, *ours])))
    (one,) = (ratio for ratio in found if ratio.figure == "latency_p95")
    assert (one.place.arm, one.versus, one.repetitions) == ("tq-wfq", "tq-fifo", 3)
    assert (one.median, one.min, one.max) == (0.3, 0.25, 0.5)


def test_ratios_are_to_every_stock_arm_where_there_is_one() -> None:
    runs = [run(arm, 0, 1.0) for arm in ("tq-fifo", "tq-wfq", "redis", "rabbitmq")]
    pairs = {(each.place.arm, each.versus) for each in ratios(measured(map(summarise, runs)))}
    assert pairs == {
        (ours, stock) for ours in ("tq-fifo", "tq-wfq") for stock in ("redis", "rabbitmq")
    }


def test_a_repetition_that_one_arm_lacks_has_no_ratio() -> None:
    found = ratios(measured(map(summarise, [*RUNS[:2], run("tq-wfq", 1, 3.0)])))
    assert {(each.repetitions, each.median) for each in found if each.figure == "latency_p50"} == {
        (1, 0.5)
    }


def test_tenants_and_levels_are_kept_and_so_are_the_quiet_together() -> None:
    rows = [make_row(0, wait=1.0, tenant="big", priority=0), make_row(1, tenant="big"),
            make_row(2, wait=2.0, tenant="small", priority=3)]  # fmt: skip
    found = [make_run(rows, arm="tq-wfq", workload="multi_tenant")]
    assert at(found, "tq-wfq", "latency_p95", "tenant:small").median == 3.0
    assert at(found, "tq-wfq", "latency_p95", "priority:3").median == 3.0
    assert at(found, "tq-wfq", "tasks", "quiet").median == 1


def test_of_a_backlog_only_its_speed_and_cost_are_kept() -> None:
    found = lines(measured([summarise(run("redis", 0, 1.0, workload="fixed-5ms"))]))
    assert {line.place.scope for line in found} == {"all"}
    assert "throughput" in {line.figure for line in found}
    assert "latency_p95" not in {line.figure for line in found}


def kept(folder: Path, runs: list[Run]) -> Path:
    cells = [each.cell for each in runs]
    profile = Profile("smoke", window=1.0, repetitions=len(runs))
    with Results.open(folder, "matrix", profile, cells, {"cores": 2}) as results:
        for each in runs:
            results.add(each)
    return folder


def test_the_files_of_a_run(tmp_path: Path) -> None:
    cut = run("tq-fifo", 3, 9.0, ending="truncated")
    folder = kept(tmp_path / "run", [*RUNS, cut])
    written = digest(folder, tmp_path / "data", "mine")
    assert [path.name for path in written] == [
        "mine.csv", "mine-ratios.csv", "mine-verdicts.csv", "mine-about.json",
    ]  # fmt: skip
    (line,) = (
        each
        for each in read_csv(written[0])
        if (each["scope"], each["figure"]) == ("all", "latency_p95")
    )
    assert (line["median"], line["min"], line["max"], line["ideal"]) == ("5", "4", "8", "1")
    about = json.loads(written[3].read_text())
    assert about["cells"] == {"planned": 4, "complete": 3, "left_out": {cut.cell.name: "truncated"}}
    before = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in digest(folder, tmp_path / "data", "mine")] == before


def test_a_run_without_a_complete_cell_is_refused_and_nothing_written(tmp_path: Path) -> None:
    folder = kept(tmp_path / "run", [run("tq-fifo", 0, 1.0, ending="failed")])
    with pytest.raises(BenchError, match="no complete cell"):
        digest(folder, tmp_path / "data")
    assert not (tmp_path / "data").exists()
