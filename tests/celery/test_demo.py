"""``tq demo`` for real: a minute, one chart, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.celery.processes_left import Mark
from tests.waiting import BUSY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
]

DEMO = [sys.executable, "-m", "tq_celery.cli", "demo"]


def environ(mark: Mark) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TQ_")}
    return inherited | mark.environ


def test_the_demo_shows_the_gain_within_a_minute(tmp_path: Path) -> None:
    mark = Mark()
    begun = time.monotonic()
    done = subprocess.run(
        [*DEMO, "--json", "--output", str(tmp_path / "chart.png")],
        env=environ(mark),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    took = time.monotonic() - begun
    assert done.returncode == 0, done.stderr
    assert not mark.alive()
    assert took < 60 + BUSY
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(done.stdout)
    for tenant in ("acme", "initech"):
        fair, stock = (found[arm][tenant]["waits"]["p95"] for arm in ("fair", "stock"))
        assert fair < stock / 5
    assert found["fair"]["globex"]["ended"] < found["stock"]["globex"]["ended"] * 1.25
    assert "1. stock Celery" in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_stops_cleanly_in_the_middle(
    tmp_path: Path, wait_until: Callable[..., Any], number: signal.Signals
) -> None:
    mark = Mark()
    program = subprocess.Popen(
        [*DEMO, "--output", str(tmp_path / "chart.png")],
        env=environ(mark),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        wait_until(lambda: len(mark.alive()) >= 5, "server, worker and their watchers run")
        program.send_signal(number)
        output, _ = program.communicate(timeout=60)
    finally:
        program.kill()
    assert program.returncode == 128 + number
    assert "nothing is left running" in output
    wait_until(lambda: not mark.alive(), "everything it started has ended")
    assert not (tmp_path / "chart.png").exists()
