"""Cells of the lab on real processes: whole ones, and each way not to be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.harness import cluster
from bench.harness.cell import Cell, Profile
from bench.harness.drive import plan_of, run_cell
from bench.harness.lab import Lab
from bench.harness.process import Process
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PROFILE = Profile("test", window=1.5, slots=4, server="valkey")
CELL = Cell("tq-wfq", "multi_tenant", 1.25, "sleep", 0)

pytestmark = pytest.mark.timeout(150)
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def lab():
    with Lab("valkey") as lab:
        yield lab


@pytest.fixture
def processes(monkeypatch) -> Iterator[dict[str, Process]]:
    """What the driver starts, by name; afterwards nothing of it is left."""
    started: dict[str, Process] = {}

    def noting(start):
        def wrapped(*args, **kwargs):
            process = start(*args, **kwargs)
            started[process.name] = process
            return process

        return wrapped

    for name in ("worker", "scheduler", "sender"):
        monkeypatch.setattr(cluster, name, noting(getattr(cluster, name)))
    yield started
    assert len(started) == 4
    for process in started.values():
        with pytest.raises(ProcessLookupError):
            os.killpg(process.pid, 0)


class Once:
    """Does something to the run when so many tasks are done, and once more at its end."""

    def __init__(self, do, done: int = 10, at_end=lambda: None) -> None:
        self._do, self._done, self._at_end = do, done, at_end

    def __call__(self, phase: str, done: int, total: int) -> None:
        if phase == "end":
            self._at_end()
        elif done >= self._done and self._do is not None:
            do, self._do = self._do, None
            do()


def keys(lab: Lab) -> list[bytes]:
    return [key for key in lab.redis.client.keys("*") if b"bench-" in key]


def test_a_whole_cell_has_every_task_once_and_leaves_nothing(lab, processes):
    run = run_cell(CELL, PROFILE, lab)
    assert (run.ending, run.reason) == ("complete", "")
    plan = plan_of(CELL, PROFILE)
    assert [row.job for row in run.rows] == [work.job for work in plan]
    for row, work, ideal in zip(run.rows, plan, run.ideal, strict=True):
        assert (row.outcome, row.executions) == ("completed", 1)
        assert (row.tenant, row.seconds, row.deadline) == (
            work.tenant, work.seconds, work.deadline,
        )  # fmt: skip
        assert row.scheduled == work.at == ideal.scheduled
        # Open loop: never before its moment, and the delay is what is recorded.
        assert row.lag == pytest.approx(row.submitted - row.scheduled, abs=2e-6)
        assert row.lag >= 0
        assert row.started is not None
        assert row.finished is not None
        assert row.submitted < row.started <= row.finished - row.seconds
    for used in (run.worker_cpu, run.scheduler_cpu, run.producer_cpu, run.server_us):
        assert used > 0
    assert run.others is not None
    assert lab.configuration()["valkey"]["save"] == ""
    assert run.versions["valkey"].startswith("valkey ")
    assert keys(lab) == []


@slow
@pytest.mark.parametrize("arm, exec_", [("redis", "sleep"), ("tq-none", "cpu")])
def test_other_arms_and_ways_to_spend_time(lab, arm, exec_):
    cell = Cell(arm, "uniform", 0.5, exec_, 1)
    run = run_cell(cell, PROFILE, lab)
    assert run.ending == "complete", run.reason
    assert run.seed == PROFILE.seed + 1
    assert {row.executions for row in run.rows} == {1}


@slow
def test_a_dead_worker_ends_the_cell_with_its_last_words(lab, processes, capsys):
    """Seen to fail when only the producer was looked at: the cell then timed out instead."""

    def kill():
        os.killpg(processes["worker-tq-wfq-1"].pid, signal.SIGKILL)

    run = run_cell(CELL, PROFILE, lab, Once(kill))
    assert run.ending == "failed"
    assert run.reason.startswith("worker-tq-wfq-1 ended with exit code -9")
    assert "last words of worker-tq-wfq-1" in capsys.readouterr().err
    assert {row.outcome for row in run.rows} == {"completed", "missing"}
    assert keys(lab) == []


@slow
def test_a_dead_producer_truncates_the_cell(lab, processes):
    run = run_cell(
        CELL, PROFILE, lab, Once(lambda: processes["producer-tq-wfq"].signal(signal.SIGKILL))
    )
    assert run.ending == "truncated"
    assert "producer-tq-wfq ended with exit code -9" in run.reason
    unsent = [row for row in run.rows if row.outcome == "missing"]
    assert unsent
    assert unsent[-1].lag == 0.0


@slow
def test_a_task_that_a_stock_arm_loses_fails_the_cell(lab):
    """Seen to fail: only our own arm's books were looked at, and the cell was averaged."""
    cell = Cell("redis", "uniform", 3.0, "sleep", 0)
    run = run_cell(cell, PROFILE, lab, Once(lambda: lab.redis.client.lpop("celery")))
    assert (run.ending, run.reason) == ("failed", "the books do not balance: 1 lost")
    assert sum(row.outcome == "missing" for row in run.rows) == 1


@slow
def test_a_cell_that_would_never_end_is_timed_out(lab, processes):
    def workers(number: signal.Signals):
        for name, process in processes.items():
            if name.startswith("worker"):
                process.signal(number)

    profile = Profile("test", window=1.0, slots=4, server="valkey", grace=1.0)
    run = run_cell(
        CELL, profile, lab,
        Once(lambda: workers(signal.SIGSTOP), at_end=lambda: workers(signal.SIGCONT)),
    )  # fmt: skip
    assert run.ending == "timed-out"
    assert "tasks were not done by" in run.reason
    assert {row.outcome for row in run.rows} == {"completed", "missing"}
    assert all(row.submitted >= row.scheduled for row in run.rows)


@slow
def test_a_cell_can_be_stopped_early_what_runs_may_end(lab, processes):
    long = Profile("test", window=20.0, slots=4, server="valkey")
    run = run_cell(CELL, long, lab, stop_after=1.0)
    assert (run.ending, run.reason) == ("truncated", "stopped after 1 s as asked")
    assert run.elapsed < 20
    done = [row for row in run.rows if row.outcome == "completed"]
    assert len(done) > 20
    assert max(row.finished or 0.0 for row in done) > 1.0
    assert all(row.executions == 0 for row in run.rows if row.outcome == "missing")


@slow
def test_abandoned_attempts_run_again_and_every_task_is_settled_once(lab):
    """The books are compared by the driver: a second settlement would be the ending ``failed``."""
    profile = Profile(
        "test", window=2.0, slots=2, pool="prefork", failure=0.2, server="valkey", load=0.5
    )
    run = run_cell(Cell("tq-fifo", "uniform", 0.5, "sleep", 0), profile, lab)
    assert run.ending == "complete", run.reason
    assert {row.outcome for row in run.rows} <= {"completed", "dead"}
    again = [row for row in run.rows if row.executions > 1]
    assert 0 < len(again) < len(run.rows) / 2
    assert len(run.dead_letters) == sum(row.outcome == "dead" for row in run.rows)


@slow
def test_an_interrupted_matrix_keeps_its_cells_ends_its_processes_and_goes_on(tmp_path):
    profile = tmp_path / "tiny.toml"
    profile.write_text('window = 1\nslots = 2\nserver = "valkey"\n')
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "bench", "matrix", "--profile", str(profile), "--out", str(out),
        "--policy", "fifo", "--policy", "wfq", "--workload", "uniform",
    ]  # fmt: skip
    first = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: list(out.glob("raw/*")), "the first cell to be kept", 60)
    time.sleep(1.0)  # well into the start of the second
    children = _children(first.pid)
    assert children
    first.send_signal(signal.SIGINT)
    _, said = first.communicate(timeout=60)
    assert first.returncode == 130
    assert "finished cells are kept" in said
    assert "bench: interrupted" in said
    wait_until(
        lambda: not [pid for pid in children if Path(f"/proc/{pid}").exists()],
        "what the run had started to be gone",
    )  # fmt: skip
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90)
    assert second.returncode == 0, second.stderr
    assert "1/1 uniform-tq-wfq" in second.stderr
    assert (out / "report.html").exists()


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *_children(child)]
    return found
