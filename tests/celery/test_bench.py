"""Every experiment runs from its command line, small, and ends with one JSON object."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def bench(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments, "--server", "valkey", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    *text, last = done.stdout.splitlines()
    assert text, "a table comes before the JSON"
    result: dict[str, Any] = json.loads(last)
    assert result["environment"]["servers"][0].startswith("valkey")
    return result


def test_ceiling() -> None:
    result = bench("ceiling", "--tasks", "20000", "--tenants", "10", "--policy", "wfq")
    (row,) = result["results"]
    assert (row["policy"], row["tenants"]) == ("wfq", 10)
    for figure in ("admit_per_s", "dispatch_per_s", "end_to_end_per_s"):
        assert row[figure] > 1_000
    assert -1 < result["fence_cost"] < 0.75


@pytest.mark.parametrize("pool", ["threads", "solo", "prefork"])
def test_drain(pool: str) -> None:
    result = bench(
        "drain", "--tasks", "1500", "--repetitions", "2", "--pool", pool, "--rival", "redis",
        "--prefetch", "4",
    )  # fmt: skip
    ratio = result["ratio"][pool]["redis"]
    assert 0 < ratio["min"] <= ratio["median"] <= ratio["max"]


def test_submit() -> None:
    result = bench("submit", "--tasks", "300", "--repetitions", "1", "--rival", "redis")
    assert result["ratio"]["tq"]["redis"]["median"] > 0
    assert result["ratio"]["tq_bulk"]["redis"]["median"] > 1


def test_latency() -> None:
    result = bench(
        "latency", "--tasks", "200", "--rival", "redis", "--idle", "2", "--repetitions", "1"
    )
    assert set(result["added_ms"]) == {"tq", "redis"}
    assert result["added_ms"]["tq"]["p50"] <= result["added_ms"]["tq"]["p99"]
    assert result["idle_cores"]["redis"]["scheduler"] == 0


def test_retrystorm(tmp_path: Path) -> None:
    chart = tmp_path / "storm.png"
    result = bench(
        "retrystorm", "--tasks", "300", "--failures", "1", "--repetitions", "1",
        "--worker-repetitions", "0", "--plot", str(chart),
    )  # fmt: skip
    assert result["fewer"]["fleet"]["exponential"]["median"] > 0.3
    assert len(result["raw"]["decorrelated"]) == 300
    assert chart.stat().st_size > 10_000


def test_delayed() -> None:
    result = bench(
        "delayed", "--waiting", "1000", "--burst", "200", "--drift", "10", "--rate", "200",
        "--repetitions", "1", "--ahead", "2", "--settle", "0.5",
    )  # fmt: skip
    ours = result["arms"]["tq"]
    assert ours["memory"].keys() == {"worker", "leader"}
    assert ours["early"] == 0
    assert ours["burst"]["seconds"] > 0
    assert result["rates"]["tq_bulk"]["median"] > result["rates"]["tq"]["median"]


def test_a_wrong_option_is_one_line_and_exit_code_2() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "drain", "--pool", "fibers"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("bench: ")
    assert "threads" in line


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
def test_the_installed_redis_is_the_default() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "submit", "--tasks", "100", "--repetitions", "1",
         "--rival", "redis", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    servers = json.loads(done.stdout.splitlines()[-1])["environment"]["servers"]
    assert servers[0].startswith("redis ")
