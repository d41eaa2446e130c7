"""The task of the crash: it holds its slot until its gate is open, and records start and end."""

from __future__ import annotations

import os
import time
from pathlib import Path

from baseline import events

__all__ = ["ALL", "GATES", "NAME", "hold"]

#: Environment variable with the folder of the gates: a file named by the job opens its gate.
GATES = "CRASH_GATES"
#: The file that opens every gate.
ALL = "all"
NAME = "crash.hold"
_PAUSE = 0.05


def hold(job: int) -> None:
    """Wait until the gate is open."""
    events.note("S", job)
    folder = Path(os.environ[GATES])
    mine, every = folder / str(job), folder / ALL
    while not (mine.exists() or every.exists()):
        time.sleep(_PAUSE)
    events.note("E", job)
