"""A worker with a setting that is wrong: one line, no traceback.

Seen to fail: with the settings read outside of ``or_end`` (a traceback of Celery's and ours).
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "name, value",
    [("TQ_LEASE", "soon"), ("TQ_URL", "http://localhost:6379"), ("TQ_METRICS_PORT", "many")],
)
def test_a_wrong_setting_ends_the_worker_with_one_line(name: str, value: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "tq_celery.produce.app", "worker", "-P", "threads"],
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    line = done.stderr.splitlines()[-1]
    assert "the worker cannot start: error=" in line
    assert f"{name.lower()}: '{value}' is not allowed" in line
