"""Child processes of an experiment: started with a log, measured by CPU time, ended by id."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bench.harness.errors import BenchError

__all__ = ["ROOT", "Process", "busy_seconds", "cpu_seconds", "python_env", "until"]

#: The repository: children run with it as working directory and on their path.
ROOT = Path(__file__).resolve().parents[2]
_TICKS = os.sysconf("SC_CLK_TCK")


def until(condition: Callable[[], bool], what: str, timeout: float, pause: float = 0.02) -> None:
    """Wait for ``condition``; raises BenchError naming ``what`` after ``timeout`` seconds."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise BenchError(f"waited {timeout:g} s in vain for {what}")
        time.sleep(pause)


def _stat(pid: int) -> tuple[int, float] | None:
    """Return parent and CPU seconds (reaped children included) of a process; None when gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name is in parentheses and may contain anything, so fields start after the last.
    fields = text.rpartition(")")[2].split()
    return int(fields[1]), sum(int(value) for value in fields[11:15]) / _TICKS


def cpu_seconds(pid: int) -> float:
    """Return user plus system seconds of a process, its living descendants and its reaped ones.

    Raises BenchError where there is no ``/proc``.
    """
    if not Path("/proc/self/stat").exists():
        raise BenchError("CPU time is read from /proc: run the bench on Linux")
    children: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (stat := _stat(int(entry))) is not None:
            parent, seconds = stat
            children.setdefault(parent, []).append(int(entry))
            used[int(entry)] = seconds
    total, stack = 0.0, [pid]
    while stack:
        current = stack.pop()
        total += used.get(current, 0.0)
        stack.extend(children.get(current, ()))
    return total


def busy_seconds(stat: str | None = None) -> float:
    """Return CPU seconds of all processes of the machine so far, whoever they belong to.

    What a hypervisor took away counts, what the kernel does for devices and networks does not.
    ``stat`` is read from ``/proc/stat`` unless given; 0 where there is no such file.
    """
    try:
        line = (Path("/proc/stat").read_text() if stat is None else stat).partition("\n")[0]
        user, nice, system, _idle, _waiting, _irq, _softirq, stolen, *_ = map(int, line.split()[1:])
    except (OSError, ValueError):
        return 0.0
    return (user + nice + system + stolen) / _TICKS


def python_env(extra: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with the repository on the path, plus ``extra``.

    Settings of the library that happen to be exported are left out: they would change a run unseen.
    """
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TQ_")}
    return {**kept, "PYTHONPATH": path, **extra}


class Process:
    """A child in its own process group; leaving the ``with`` block ends it and its children."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        listens: bool = False,
    ) -> None:
        """``listens``: the child reads its standard input, see :meth:`tell`."""
        self.name = name
        self._asked = False
        self._log = tempfile.NamedTemporaryFile(  # noqa: SIM115 - lives as long as the child
            mode="w+b", prefix=f"bench-{name}-", suffix=".log"
        )
        self._popen = subprocess.Popen(
            list(command),
            cwd=ROOT,
            env=python_env(env or {}),
            stdin=subprocess.PIPE if listens else subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The id of the child (leader of its process group)."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether the child is still running."""
        return self._popen.poll() is None

    @property
    def code(self) -> int | None:
        """The exit code, None while the child runs."""
        return self._popen.poll()

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def cpu(self) -> float:
        """Return CPU seconds used so far by the child and its descendants."""
        return cpu_seconds(self.pid)

    def output(self) -> str:
        """Return everything the child has printed."""
        return Path(self._log.name).read_text(errors="replace")

    def tail(self, lines: int = 20) -> str:
        """Return the last ``lines`` lines that the child has printed."""
        return "\n".join(self.output().strip().splitlines()[-lines:]) or "(no output)"

    def check(self) -> None:
        """Raise BenchError with the child's last line when it has ended by itself."""
        code = self._popen.poll()
        if code is not None:
            raise BenchError(f"{self.name} ended with exit code {code}: {self.tail(1)}")

    def tell(self, line: str) -> None:
        """Write a line to a child that listens; raises BenchError when it has ended."""
        pipe = self._popen.stdin
        if pipe is None:
            raise ValueError(f"{self.name} does not listen")
        try:
            pipe.write(f"{line}\n".encode())
            pipe.flush()
        except OSError:
            self._popen.wait()
            self.check()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child itself."""
        self._popen.send_signal(number)

    def ask_to_stop(self) -> None:
        """Send SIGTERM and return at once, so that several children can stop side by side."""
        if self.alive:
            self._popen.terminate()
            self._asked = True

    def stop(self, timeout: float = 20.0) -> None:
        """End the child: SIGTERM, then SIGKILL for its whole group after ``timeout`` seconds."""
        try:
            if self._popen.poll() is None:
                if not self._asked:
                    self._popen.terminate()
                self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            print(f"{self.name} did not stop in {timeout:g} s: killed", file=sys.stderr)
        finally:
            # Also when a second Ctrl-C arrives while the child is stopping.
            self._end_group()

    def _end_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        if self._popen.stdin is not None:
            with contextlib.suppress(OSError):
                self._popen.stdin.close()
        self._log.close()
