"""Tasks of this experiment beside those that all experiments on failures share."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.experiments.workerloss.names import EAT, KILLED
from bench.harness.failures.app import app, note, tq

__all__ = ["app", "deadly", "hold", "part", "total"]


#: Bytes that are taken at a time, and at most: more than the limit that is to be hit.
MOUTHFUL, STOMACH = 4 * 2**20, 512 * 2**20
#: Seconds until a body gives up: its experiment is gone.
LONGEST = 300.0


@tq.task(bind=True, name="workerloss.hold")
def hold(self: Any, gate: str) -> None:
    """Take a slot until the file ``gate`` exists, unless it is this one that runs out of memory."""
    note("S", self.request)
    end = time.monotonic() + LONGEST
    while not Path(gate).exists() and time.monotonic() < end:
        _run_out(Path(gate).parent, self.request.id)
        time.sleep(0.02)
    note("E", self.request)


def _run_out(folder: Path, task_id: str) -> None:
    """If asked to, take memory until the kernel kills the process; or wait for another to do so."""
    try:
        words = (folder / EAT).read_text()
        (folder / EAT).unlink()
    except FileNotFoundError:
        return  # nobody is asked, or another was faster
    written = folder / f"{KILLED}.new"
    written.write_text(f"{os.getpid()} {task_id}")
    written.rename(folder / KILLED)
    taken = []
    for _ in range(STOMACH // MOUTHFUL if words == "memory" else 0):
        # Written to, for what is only asked for is not given yet.
        taken.append(b"\1" * MOUTHFUL)
    time.sleep(LONGEST)


@tq.task(bind=True, name="workerloss.deadly")
def deadly(self: Any) -> None:
    """Kill the process it runs in, every time."""
    note("S", self.request)
    os.kill(os.getpid(), signal.SIGKILL)


@tq.task(bind=True, name="workerloss.part")
def part(self: Any, number: int) -> int:
    """Return ``number``: a part of the chord that ends as it should."""
    note("S", self.request)
    note("E", self.request)
    return number


@tq.task(bind=True, name="workerloss.total")
def total(self: Any, numbers: Sequence[int]) -> int:
    """Add up: the body of the chord, which must not run when a part was lost."""
    note("S", self.request)
    note("E", self.request)
    return sum(numbers)
