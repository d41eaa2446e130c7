"""Programs started for a run, which end with it: also when the run itself is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tq_celery.errors import ReplayError

__all__ = ["Processes"]

#: Seconds a program may take to end after SIGTERM before it is killed.
STOP_TIMEOUT = 6.0

#: Ends process $1 and removes directory $2 once standard input is closed, as its starter's death
#: does; whatever way the starter dies.
_LEASH = """
cat >/dev/null
kill -TERM "$1"
n=0; while kill -0 "$1" && [ $n -lt 50 ]; do sleep 0.1; n=$((n+1)); done
kill -KILL "$1"
rm -rf -- "$2"
"""


class Processes:
    """A set of running programs; their output goes to files in ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: list[tuple[str, subprocess.Popen[bytes], subprocess.Popen[bytes]]] = []

    def start(self, name: str, command: Sequence[str], environ: Mapping[str, str]) -> int:
        """Start ``command`` with ``environ`` added to the environment; returns its pid."""
        with (self._directory / f"{name}.log").open("wb") as output:
            process = subprocess.Popen(
                command,
                env={**os.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us; we end the others in order
            )
        leash = subprocess.Popen(
            ["sh", "-c", _LEASH, "tq-leash", str(process.pid), str(self._directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._running.append((name, process, leash))
        return process.pid

    def check(self) -> None:
        """Raise ReplayError with the last words of a program that has ended."""
        for name, process, _ in self._running:
            code = process.poll()
            if code is not None:
                raise ReplayError(f"the {name} ended with code {code}: {self.last_words(name)}")

    def last_words(self, name: str) -> str:
        """Return the end of a program's output, on one line."""
        text = (self._directory / f"{name}.log").read_text("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " / ".join(lines[-3:])[-600:] or "it wrote nothing"

    def stop(self) -> None:
        """End all programs, the last started first, and wait for them."""
        for _, process, _ in reversed(self._running):
            if process.poll() is None:
                process.terminate()
        give_up = time.monotonic() + STOP_TIMEOUT
        for _, process, leash in reversed(self._running):
            try:
                process.wait(max(0.1, give_up - time.monotonic()))
            except subprocess.TimeoutExpired:
                _kill_group(process)
                process.wait()
            leash.kill()
            leash.wait()
            assert leash.stdin is not None
            leash.stdin.close()
        self._running.clear()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and its children: a prefork worker's own would outlive it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
