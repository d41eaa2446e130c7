"""Processes whose wall clock is wrong, and a server whose clock is stepped while it runs."""

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

import pytest

SOURCE = Path(__file__).with_name("clock_shift.c")


class Clock:
    """A wall clock that is off by :attr:`shift` seconds for processes started with it."""

    def __init__(self, library: Path, file: Path, shift: int = 0) -> None:
        self._file = file
        self.environ = {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(file)}
        self.step(shift)

    def step(self, shift: int) -> None:
        """Set the shift; running processes see it at once."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("=q", shift))


class Clocks:
    """Makes clocks; builds what shifts them once."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._monkeypatch = folder, monkeypatch
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("a C compiler is needed to shift the clock of a process")
        self._library = folder / "clock_shift.so"
        subprocess.run(
            [compiler, "-O1", "-shared", "-fPIC", "-o", str(self._library), str(SOURCE)], check=True
        )
        self._count = 0
        self._check()

    def _check(self) -> None:
        """A shift that does not work would make every test of it pass."""
        read = [sys.executable, "-c", "import time; print(time.time())"]
        environ = {**os.environ, **self.shifted(-600).environ}
        told = float(subprocess.check_output(read, env=environ))
        assert 590 < time.time() - told < 610

    def shifted(self, shift: int) -> Clock:
        self._count += 1
        return Clock(self._library, self._folder / f"clock-{self._count}", shift)

    @contextmanager
    def used(self, clock: Clock) -> Iterator[None]:
        """Start in this block what shall live by ``clock`` and takes this process's environment."""
        with self._monkeypatch.context() as patch:
            for name, value in clock.environ.items():
                patch.setenv(name, value)
            yield


@pytest.fixture
def clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clocks:
    """Shifted clocks; skipped where no C compiler is installed."""
    return Clocks(tmp_path, monkeypatch)
