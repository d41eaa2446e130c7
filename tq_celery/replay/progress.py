"""One line that says how far a run is: redrawn on a terminal, now and then anywhere else."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from tq_celery.replay.engine import Run

__all__ = ["Progress"]

#: Seconds between two lines when the output is not a terminal.
_EVERY = 10.0
_WIDTH = 24


class Progress:
    """Watches one arm. ``span`` is how long submitting takes, ``work`` all worker seconds."""

    def __init__(
        self, label: str, slots: int, span: float, work: float, stream: TextIO = sys.stderr
    ) -> None:
        self._label, self._slots, self._span, self._work = label, slots, span, work
        self._stream = stream
        self._terminal = stream.isatty()
        self._said = time.monotonic()
        self._counted = 0
        self._done = 0.0

    def __call__(self, run: Run) -> None:
        """Show the run as it stands."""
        now = time.monotonic()
        if not self._terminal and now - self._said < _EVERY:
            return
        self._said = now
        start = "\r" if self._terminal else ""
        end = "\x1b[K" if self._terminal else "\n"
        self._stream.write(start + self.line(run, time.time()) + end)
        self._stream.flush()

    def line(self, run: Run, now: float) -> str:
        """Return the text: bar, counts and an estimate of the time left."""
        for record in run.records[self._counted :]:
            self._done += record.work.seconds
        self._counted = run.finished
        filled = _WIDTH * run.finished // max(run.total, 1)
        bar = "#" * filled + "-" * (_WIDTH - filled)
        return (
            f"{self._label} [{bar}] {run.finished}/{run.total} done, {len(run.waiting)} waiting, "
            f"{len(run.running)} running, {self._left(run, now)} left"
        )

    def _left(self, run: Run, now: float) -> str:
        to_submit = self._span - (now - run.began)
        to_work = (self._work - self._done) / self._slots
        seconds = max(0, round(max(to_submit, to_work)))
        return f"{seconds // 60}m{seconds % 60:02d}s"

    def close(self) -> None:
        """End the line on a terminal."""
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
