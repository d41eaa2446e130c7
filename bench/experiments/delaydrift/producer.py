"""Send tasks that are due in a second: ``python -m ...delaydrift.producer MODULE COUNT``.

The environment names the file for the timings, and the pause between two calls.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time

__all__ = ["FILE", "PAUSE", "SECOND"]

FILE, PAUSE = "BASELINE_TIMINGS", "DELAYDRIFT_PAUSE"
#: Seconds from each call to the moment at which its task is due.
SECOND = 1.0


def main(module: str, count: int) -> None:
    """Send ``count`` tasks that write down when they were due and when they started."""
    timed = importlib.import_module(module).TASKS["timed"]
    path, pause = os.environ[FILE], float(os.environ[PAUSE])
    # Opens the connection; due at 0, it is dropped by the reader of the file.
    timed.delay(path, 0.0, 0.0)
    for _ in range(count):
        timed.apply_async((path, time.monotonic() + SECOND, 0.0), countdown=SECOND)
        time.sleep(pause)
    print(json.dumps({"sent": count}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
