"""``tq replay`` for real: workers, schedulers and a server of its own, or one that is there."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.celery.processes_left import Mark
from tests.servers import ValkeyServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
]

TQ = [sys.executable, "-m", "tq_celery.cli"]


def write_trace(path: Path, jobs: int) -> Path:
    """One user sends a burst of work, two others a job now and then."""
    rng = random.Random(3)
    lines = []
    for number in range(jobs):
        submit = number // 10 * 5 if number % 10 else number // 10 * 5 + 1
        user = 1 if number % 10 else 2 + number // 10 % 2
        lines.append((submit, rng.randint(5, 60), user))
    with path.open("w") as stream:
        stream.write("; Version: 2.2\n")
        for number, (submit, run_time, user) in enumerate(sorted(lines), 1):
            fields = [number, submit, -1, run_time, *[-1] * 7, user, *[-1] * 6]
            stream.write(" ".join(map(str, fields)) + "\n")
    return path


def clean_environ(mark: Mark) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TQ_")}
    return inherited | mark.environ


def replay(mark: Mark, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TQ, "replay", *map(str, arguments)],
        env=clean_environ(mark),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_stock_and_wfq_run_the_same_jobs_and_leave_nothing(tmp_path: Path) -> None:
    mark = Mark()
    trace = write_trace(tmp_path / "burst.swf", 120)
    raw = tmp_path / "raw.csv"
    done = replay(
        mark, trace, "--span", "4s", "--load", "1.5", "--slots", "4", "--workers", "2",
        "--schedulers", "2", "--policies", "stock,wfq", "--output", raw, "--json",
    )  # fmt: skip
    found = result_of(done)
    assert not mark.alive()
    assert found["load"] == pytest.approx(1.5, rel=0.01)
    stock, fair = found["results"]
    assert (stock["jobs"], fair["jobs"]) == (120, 120)
    assert (stock["repeats"], fair["repeats"]) == (0, 0)

    rows = list(csv.DictReader(raw.read_text().splitlines()))
    assert len(rows) == 240
    for policy in ("stock", "wfq"):
        assert {int(r["job"]) for r in rows if r["policy"] == policy} == set(range(120))
    assert all(float(r["finished"]) >= float(r["started"]) for r in rows)
    by_job = sorted((r["job"], r["seconds"], r["tenant"]) for r in rows)
    assert by_job[::2] == by_job[1::2]

    def p95(summary: dict[str, Any], tenant: str) -> float:
        return next(t["waits"]["p95"] for t in summary["tenants"] if t["tenant"] == tenant)

    assert p95(fair, "user-2") < p95(stock, "user-2") / 2


def test_a_given_server_is_left_as_it_was(tmp_path: Path, server: ValkeyServer) -> None:
    mark = Mark()
    trace = write_trace(tmp_path / "burst.swf", 20)
    with server.client() as client:
        before = set(client.scan_iter(count=1000))
        done = replay(
            mark, trace, "--url", server.url, "--span", "1s", "--load", "0.5", "--slots", "2",
            "--policies", "stock,fifo", "--output", tmp_path / "raw.csv", "--json",
            "--weight", "user-1=2",
        )  # fmt: skip
        result_of(done)
        assert set(client.scan_iter(count=1000)) - before == set()
    assert not mark.alive()


def test_requests_of_a_csv_trace_cost_their_tokens(tmp_path: Path) -> None:
    mark = Mark()
    trace = tmp_path / "llm.csv"
    rows = [f"2023-11-16 18:15:{40 + i / 2:.7f},{100 + i},{i}" for i in range(30)]
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n,1,2\n")
    raw = tmp_path / "raw.csv"
    done = replay(
        mark, trace, "--time-column", "TIMESTAMP", "--cost-columns",
        "ContextTokens,GeneratedTokens", "--span", "2s", "--load", "0.8", "--slots", "4",
        "--output", raw, "--json",
    )  # fmt: skip
    found = result_of(done)
    assert found["skipped"] == {"malformed": 1}
    assert "skipped 1 line: malformed (first at line 32" in done.stderr
    costs = [float(row["cost"]) for row in csv.DictReader(raw.read_text().splitlines())]
    assert costs == [100.0 + 2 * i for i in range(30)]
    assert not mark.alive()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)],
)
def test_a_run_that_is_ended_leaves_no_process_and_no_whole_file(
    tmp_path: Path, wait_until: Callable[..., Any], number: signal.Signals, code: int
) -> None:
    mark = Mark()
    trace = write_trace(tmp_path / "burst.swf", 200)
    raw = tmp_path / "raw.csv"
    program = subprocess.Popen(
        [*TQ, "replay", str(trace), "--span", "60s", "--output", str(raw), "--policy", "stock"],
        env=clean_environ(mark),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(lambda: len(mark.alive()) >= 5, "server, worker and their watchers run")
        program.send_signal(number)
        _, errors = program.communicate(timeout=60)
    finally:
        program.kill()
    assert program.returncode == code
    wait_until(lambda: not mark.alive(), "everything it started has ended")
    assert not raw.exists()
    if number != signal.SIGKILL:
        assert "incomplete, no arm ran to its end" in errors


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://:secret@127.0.0.1:1/0", "tq: the server does not answer (ping: redis://"),
        ("sentinel://127.0.0.1:1/master", "expected redis:// or rediss://"),
    ],
)
def test_a_server_that_cannot_be_used_is_named_at_once(
    tmp_path: Path, url: str, message: str
) -> None:
    mark = Mark()
    trace = write_trace(tmp_path / "burst.swf", 20)
    done = replay(mark, trace, "--url", url, "--output", tmp_path / "raw.csv")
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]
    assert "secret" not in done.stderr
    assert not (tmp_path / "raw.csv").exists()
    assert not mark.alive()


def test_a_worker_that_dies_makes_the_run_fail(
    tmp_path: Path, wait_until: Callable[..., Any]
) -> None:
    mark = Mark()
    trace = write_trace(tmp_path / "burst.swf", 200)
    program = subprocess.Popen(
        [*TQ, "replay", str(trace), "--span", "60s", "--output", str(tmp_path / "raw.csv")],
        env=clean_environ(mark),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        lines = wait_until(
            lambda: [line for line in mark.alive() if "tq_celery.replay.worker" in line],
            "the worker runs",
        )
        os.kill(int(lines[0].split()[0]), signal.SIGKILL)
        _, errors = program.communicate(timeout=60)
    finally:
        program.kill()
    assert program.returncode == 2
    assert "the worker 1 ended with code -9" in errors
    assert not (tmp_path / "raw.csv").exists()
    assert not mark.alive()
