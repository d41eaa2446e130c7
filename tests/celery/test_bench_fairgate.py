"""The fairness gate on real workers: it passes what shares, fails what does not, refuses a lull."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(170)]


def fairgate(*arguments: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "fairgate", "--repetitions", "1", "--window", "1", "2.5",
         "--server", "valkey", "--json", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=160,
    )  # fmt: skip
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return done.returncode, result, done.stderr.splitlines()[-1]


def test_fair_shares_are_told_from_priorities() -> None:
    _, result, _ = fairgate()
    assert not result["refused"]
    (ours,), (stock,) = result["windows"]["tq-wfq"], result["windows"]["redis-priority"]
    assert ours["jain"] > stock["jain"] + 0.15
    assert stock["starts"]["reports"] == 0
    assert all(ours["starts"].values())
    assert max(ours["peak"], stock["peak"]) <= 4
    (rules,) = result["rules"]
    assert len(rules) == 5


def test_priorities_do_not_pass_the_gate() -> None:
    """Seen to pass instead of fail: with ``passed`` taken as true for every rule."""
    code, result, last = fairgate("--arm", "redis-priority", "--baseline", "redis")
    assert (code, result["passed"], result["refused"]) == (2, False, {})
    assert last.startswith("bench: the gate is not passed: repetition 0: Jain's index")


def test_a_window_with_too_little_backlog_is_refused() -> None:
    """Seen to fail: with ``refusals`` returning nothing."""
    code, result, last = fairgate("--load", "0.5")
    assert (code, result["passed"], result["rules"]) == (2, False, [[]])
    assert set(result["refused"]) == {"repetition 0 tq-wfq", "repetition 0 redis-priority"}
    assert "the window cannot be judged" in last
