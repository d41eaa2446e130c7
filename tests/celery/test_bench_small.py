"""The small experiments, one question each: from the command line, on real servers and workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def bench(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments, "--server", "valkey", "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def test_race() -> None:
    """A naive pop has to be caught, or the others prove nothing."""
    result = bench("race", "--rounds", "20", "--repetitions", "2")
    assert result["passed"]
    assert result["double"]["naive"]["min"] > 0
    assert result["double"]["scripted"]["max"] == result["double"]["tq"]["max"] == 0


def test_crash() -> None:
    result = bench(
        "crash", "--tasks", "40", "--held", "20", "--settled", "4", "--lease", "3",
        "--repetitions", "1",
    )  # fmt: skip
    assert result["passed"]["tq"]
    for arm in ("tq", "redis"):
        (run,) = result["arms"][arm]
        assert run["unanswered"] > 0
        assert run["account"]["lost"] == []
        # interrupted bodies ran again, so that there was something to lose
        assert run["account"]["executions"]["2"] >= 1


def test_delaydrift() -> None:
    result = bench(
        "delaydrift", "--tasks", "20", "--pause", "5", "--repetitions", "1",
        "--arm", "tq-wfq", "--arm", "redis",
    )  # fmt: skip
    for arm in ("tq-wfq", "redis"):
        assert result["late_ms"][arm]["5"]["early"] == 0
        assert len(result["raw_ms"][arm]["5"][0]) == 20


def test_priority() -> None:
    result = bench(
        "priority", "--tasks", "30", "--sleep", "1", "--repetitions", "1",
        "--arm", "tq-priority", "--arm", "tq-fifo", "--arm", "redis-priority",
    )  # fmt: skip
    assert result["passed"]
    assert result["share"]["tq-priority"]["min"] == 1
    assert result["share"]["tq-fifo"]["max"] < 1
