"""Send timed tasks as a Poisson stream: ``python -m ...latency.producer MODULE COUNT``.

The environment names the file for the timings, the rate, the seconds each task sleeps and the seed.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import time

__all__ = ["FILE", "RATE", "SEED", "SLEEP"]

FILE, RATE = "BASELINE_TIMINGS", "BASELINE_RATE"
SLEEP, SEED = "BASELINE_SLEEP", "BASELINE_SEED"


def main(module: str, count: int) -> None:
    """Send ``count`` tasks, each at its own moment; prints how late the sender itself was."""
    timed = importlib.import_module(module).TASKS["timed"]
    path, sleep = os.environ[FILE], float(os.environ[SLEEP])
    rate, rng = float(os.environ[RATE]), random.Random(int(os.environ[SEED]))
    # Opens the connection and loads scripts; its timing is dropped by the reader of the file.
    timed.delay(path, 0.0, sleep)
    moment, latest = time.monotonic() + 1.0, 0.0
    for _ in range(count):
        moment += rng.expovariate(rate)
        time.sleep(max(0.0, moment - time.monotonic()))
        now = time.monotonic()
        latest = max(latest, now - moment)
        timed.delay(path, now, sleep)
    print(json.dumps({"sent": count, "latest": latest}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
