"""Progress over the cells of a run: one line that is rewritten, with the time left.

Written by hand, because it is drawn while something is measured on the same cores: one short write,
at most twice a second. Where standard error is no terminal, each cell gets a line when it is done.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from bench.harness.cell import Cell
from bench.harness.record import Run

__all__ = ["Bar", "in_words"]

#: Seconds between two drawings.
EVERY = 0.5
WIDTH = 24


def in_words(seconds: float) -> str:
    """Return a duration as a person would say it: ``45 s``, ``12 min``, ``1 h 05 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


class Bar:
    """Shows how far a run has come.

    ``expected`` returns about how many seconds a cell takes; what the cells that are done really
    took corrects the estimate for the others.
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        expected: Callable[[Cell], float],
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cells, self._expected, self._clock = list(cells), expected, clock
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._done, self._began, self._drawn = 0, clock(), 0.0
        #: Seconds that the cells run so far took, and were expected to take.
        self._took, self._planned = 0.0, 0.0

    def begin(self) -> None:
        """Note that the next cell starts."""
        self._began, self._drawn = self._clock(), 0.0

    def left(self) -> float:
        """Return about how many seconds the run still takes."""
        factor = self._took / self._planned if self._planned else 1.0
        rest = sum(map(self._expected, self._cells[self._done :])) * factor
        running = self._clock() - self._began if self._done < len(self._cells) else 0.0
        return max(0.0, rest - running)

    def watch(self, phase: str, done: int, total: int) -> None:
        """Draw the line, unless that was done just now; a :data:`~bench.harness.course.Watch`."""
        now = self._clock()
        if not self._live or now - self._drawn < EVERY:
            return
        self._drawn = now
        cell = self._cells[self._done]
        share = (self._done + (done / total if total else 0.0)) / len(self._cells)
        filled = round(WIDTH * share)
        self._write(
            f"[{'#' * filled}{'.' * (WIDTH - filled)}] {self._done + 1}/{len(self._cells)} "
            f"{cell.name}: {phase} {done:,}/{total:,}, {in_words(self.left())} left"
        )

    def end(self, run: Run) -> None:
        """Note that the current cell is done, and say how it ended."""
        self._took += self._clock() - self._began
        self._planned += self._expected(run.cell)
        self._done += 1
        self._began = self._clock()
        reason = f" ({run.reason})" if run.reason else ""
        self._write("")
        print(
            f"{self._done}/{len(self._cells)} {run.cell.name}: {run.ending}{reason} in "
            f"{in_words(run.elapsed)}; {in_words(self.left())} left",
            file=self._stream,
            flush=True,
        )

    def clear(self) -> None:
        """Leave an empty line for what is printed next."""
        self._write("")

    def _write(self, line: str) -> None:
        if self._live:
            # Back to the start, and away with what the line had before.
            self._stream.write(f"\r\x1b[K{line}")
            self._stream.flush()
