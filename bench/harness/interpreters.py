"""Python environments of the arms: this one, and one of 3.13 for what needs it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.harness.errors import BenchError
from bench.harness.process import ROOT, python_env
from bench.harness.report import progress

__all__ = ["described_by", "python_313"]

_FOLDER = ROOT / ".venv-313"
_CHECK = (
    "import celery_redis_plus, kombu.transport.redis, importlib.metadata;"
    "importlib.metadata.version('tq-celery')"
)


_DESCRIBE = (
    "import json; from bench.harness.environment import describe; print(json.dumps(describe()))"
)


def described_by(python: str) -> dict[str, object]:
    """Return the environment as ``python`` sees it: its own version, and what is installed in it.

    Raises BenchError when it cannot run the bench.
    """
    done = subprocess.run(
        [python, "-c", _DESCRIBE], cwd=ROOT, env=python_env({}), capture_output=True, text=True
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise BenchError(f"{python} cannot run the bench: {reason}")
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def _candidates() -> Iterator[str]:
    versions = Path.home() / ".pyenv" / "versions"
    yield from sorted(map(str, versions.glob("3.13*/bin/python3.13")), reverse=True)
    found = shutil.which("python3.13")
    if found:
        yield found


def _runs(command: list[str]) -> bool:
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0
    except OSError:
        return False


def python_313() -> str:
    """Return a Python 3.13 with this project and celery-redis-plus, built under ``.venv-313``.

    celery-redis-plus runs on 3.13 and later only, so both sides of that comparison use this
    interpreter. Raises BenchError where the machine has no Python 3.13.
    """
    if sys.version_info[:2] == (3, 13) and _runs([sys.executable, "-c", _CHECK]):
        return sys.executable
    python = str(_FOLDER / "bin" / "python")
    if _runs([python, "-c", _CHECK]):
        return python
    base = next((item for item in _candidates() if _runs([item, "--version"])), None)
    if base is None:
        raise BenchError("celery-redis-plus needs Python 3.13, and this machine has none")
    progress(f"building {_FOLDER.name} with {base}")
    for command in (
        [base, "-m", "venv", str(_FOLDER)],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
         "-e", f"{ROOT}", "celery[redis]", "celery-redis-plus[redis,hiredis]"],
    ):  # fmt: skip
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise BenchError(f"{_FOLDER.name} cannot be built: {reason}")
    return python
