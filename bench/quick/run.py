"""Runs one step as a user would, and looks at all that it left."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.harness.process import ROOT, python_env
from bench.quick.folder import missing
from bench.quick.steps import Step

__all__ = ["absent", "run"]

#: Seconds after which a step is ended: something hangs.
TIMEOUT = 180.0
#: Seconds that it may take to end.
ENDING = 60.0


def run(step: Step, out: Path, timeout: float = TIMEOUT) -> tuple[list[str], float]:
    """Run a step into ``out``; returns what is wrong ([]: nothing) and the seconds it took."""
    folder = out / step.name
    command = [sys.executable, "-m", "bench", step.experiment, *step.arguments, "--json"]
    command += ["--save", str(out / f"{step.name}.json")]
    if step.plots is not None:
        command += ["--out", str(folder)]
    began = time.monotonic()
    # A process group of its own is not wanted: an interruption has to reach the servers too.
    done = subprocess.Popen(
        command, cwd=ROOT, env=python_env({}), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        printed, said = done.communicate(timeout=timeout)
        problems = list(_problems(step, folder, done.returncode, printed, said))
    except subprocess.TimeoutExpired:
        problems = [f"not done within {timeout:g} s"]
    finally:
        _end(done)
    return problems, time.monotonic() - began


def _end(done: subprocess.Popen[str]) -> None:
    """End a step that still runs; it ends its servers and workers itself, if it can."""
    if done.poll() is None:
        done.terminate()
        try:
            # Read on: who waits for a full pipe does not end.
            done.communicate(timeout=ENDING)
        except subprocess.TimeoutExpired:
            done.kill()
            done.wait()


def _problems(step: Step, folder: Path, code: int, printed: str, said: str) -> Iterable[str]:
    if code not in step.codes:
        yield f"exit code {code}: {(said.strip().splitlines() or ['(nothing said)'])[-1]}"
        return
    *text, last = printed.splitlines() or [""]
    try:
        result = json.loads(last)
    except ValueError:
        yield "the last line is not JSON"
        return
    if not text:
        yield "no table before the JSON"
    wants = ("experiment", "environment.commit", *step.wants)
    yield from (f"the JSON has no {path}" for path in absent(result, wants))
    if step.plots is not None:
        yield from missing(folder, step.plots)


def absent(result: Any, paths: Iterable[str]) -> list[str]:
    """Return those of ``paths`` (words with dots between) at which ``result`` holds nothing."""

    def empty(path: str) -> bool:
        at = result
        for word in path.split("."):
            if not isinstance(at, Mapping) or word not in at:
                return True
            at = at[word]
        return at is None or (isinstance(at, (str, list, Mapping)) and not at)

    return [path for path in paths if empty(path)]
