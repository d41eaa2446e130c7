"""Processes whose wall clock is wrong, and the clock of a running process stepped from outside.

A small library that is loaded before all others adds a shift to what the system's wall clock says;
monotonic clocks stay as they are. It is built with the C compiler of the machine.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.harness.errors import BenchError

__all__ = ["Clock", "Clocks"]

SOURCE = Path(__file__).with_name("clock_shift.c")


class Clock:
    """A wall clock that is off by a number of seconds for processes started with it."""

    def __init__(self, library: Path, file: Path, shift: int = 0) -> None:
        self._file = file
        #: What a process must have in its environment to live by this clock.
        self.environ = {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(file)}
        self.step(shift)

    def step(self, shift: int) -> None:
        """Set the shift in seconds; running processes see it at once."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("=q", shift))

    @contextmanager
    def used(self) -> Iterator[None]:
        """Start in this block what shall live by the clock and takes this process's environment."""
        before = {name: os.environ.get(name) for name in self.environ}
        os.environ.update(self.environ)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


class Clocks:
    """Makes clocks in ``folder``; builds what shifts them once.

    Raises BenchError without a C compiler, and where the shift has no effect: whatever is measured
    under a clock that is right after all would pass.
    """

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise BenchError("a C compiler is needed to shift the clock of a process")
        self._folder = folder
        self._library = folder / "clock_shift.so"
        subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", "-o", str(self._library), str(SOURCE)], check=True
        )
        self._count = 0
        self._check()

    def _check(self) -> None:
        read = [sys.executable, "-c", "import time; print(time.time())"]
        told = float(
            subprocess.check_output(read, env={**os.environ, **self.shifted(-600).environ})
        )
        if not 590 < time.time() - told < 610:
            raise BenchError("the clock of a process cannot be shifted on this machine")

    def shifted(self, shift: int) -> Clock:
        """Return a new clock that is off by ``shift`` seconds."""
        self._count += 1
        return Clock(self._library, self._folder / f"clock-{self._count}", shift)
