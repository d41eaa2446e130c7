"""``celery -A proj tq``: the same commands, with the application's settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Space


@pytest.fixture
def celery(space: Space, tmp_path: Path):
    (tmp_path / "proj.py").write_text(
        "from celery import Celery\n"
        "from tq_celery import TQ\n"
        f"app = Celery({space.settings.namespace!r}, broker='memory://')\n"
        f"TQ(app, {space.server.url!r})\n"
    )

    def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "celery", *args],
            cwd=tmp_path,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_application_says_where(space: Space, celery) -> None:
    space.submit(3)
    done = celery("-A", "proj", "tq", "status", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["namespace"], found["submitted"]) == (space.settings.namespace, 3)


def test_flags_and_the_application_variable_of_celery(space: Space, celery) -> None:
    done = celery("tq", "--namespace", "other", "status", "--json", CELERY_APP="proj")
    assert json.loads(done.stdout)["namespace"] == "other"


def test_errors_are_one_line_here_too(celery) -> None:
    done = celery("-A", "proj", "tq", "status", "--url", "redis://127.0.0.1:1/0")
    assert done.returncode == 2
    assert done.stderr.startswith("tq: the server does not answer (")
    assert done.stderr.count("\n") == 1
    assert celery("-A", "proj", "tq", "bogus").stderr == (
        "tq: No such command 'bogus' (see 'python -m celery tq --help')\n"
    )


def test_celery_lists_the_command(celery) -> None:
    assert "Fair scheduling for Celery." in celery("--help").stdout
