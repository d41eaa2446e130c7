"""The image: small, not root, content with a root file system that nothing can be written to."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docker.engine import IMAGE, docker, run
from tests.unit.deploy.queries import DEPLOY

pytestmark = pytest.mark.usefixtures("images")

#: What one may run as: as little as the compose file allows.
CONFINED = ["run", "--rm", "--read-only", "--tmpfs", "/tmp", "--cap-drop=ALL", "--network=none"]


def test_the_command_runs_confined() -> None:
    assert "Fair scheduling for Celery" in docker(*CONFINED, IMAGE, "tq", "--help")


def test_nobody_is_root_and_nothing_can_be_installed() -> None:
    code = "import os, importlib.util as u; print(os.getuid(), os.getgid(), u.find_spec('pip'))"
    assert docker(*CONFINED, IMAGE, "python", "-c", code).split() == ["10001", "10001", "None"]


@pytest.mark.parametrize(
    "words, said",
    [
        (["tq", "status"], "tq: the server does not answer (overview: "),
        (["tq", "scheduler"], "tq: the server does not answer (seed: "),
        (["tq", "scheduler", "--lease", "soon"], "tq: "),
        (["tq", "produce", "uniform", "--count", "1"], "tq: the server does not answer (config: "),
    ],
)
def test_what_is_missing_or_wrong_is_said_in_one_line(words: list[str], said: str) -> None:
    """Without a TQ_URL they look for a server on their own host, where there is none."""
    done = run(*CONFINED, IMAGE, *words, timeout=60)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(said)


def test_the_project_adds_little_to_python() -> None:
    (image,) = json.loads(docker("image", "inspect", IMAGE))
    (base,) = json.loads(docker("image", "inspect", "python:3.13-slim"))
    assert (image["Size"] - base["Size"]) / 1e6 < 120


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("Dockerfile")), ids=str)
def test_hadolint_finds_nothing(path: Path) -> None:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or "hadolint"
    done = subprocess.run([program, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
