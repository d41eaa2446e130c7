"""Runs a user's test suite in a process of its own, as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: A project as users write it; its servers are away.
PROJECT = """
from celery import Celery
from tq_celery import TQ

app = Celery("proj", broker="amqp://127.0.0.1:1//", backend="redis://127.0.0.1:1/1")
tq = TQ(app, "redis://127.0.0.1:1/0")

@tq.task(name="proj.report", tenant="account", deadline=30)
def report(account):
    return f"report for {account}"

@app.task(name="proj.plain")
def plain(x):
    return x
"""
CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def tq_app():
    from proj import app
    return app

@pytest.fixture(scope="session")
def tq_session_app(tq_app):
    return tq_app
"""


@dataclass(frozen=True)
class Run:
    """What a run of pytest printed, and its exit code."""

    code: int
    text: str


def run_suite(
    folder: Path, files: Mapping[str, str], *options: str, environ: Mapping[str, str] | None = None
) -> Run:
    """Write ``files`` beside the project and run pytest on them."""
    for name, text in {"proj.py": PROJECT, "conftest.py": CONFTEST, **files}.items():
        (folder / name).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("TQ_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), "C_FORCE_ROOT": "1", **(environ or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Run(done.returncode, done.stdout + done.stderr)
