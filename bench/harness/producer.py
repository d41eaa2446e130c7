"""Send no-op tasks through an application's own ``delay()`` and say how fast that was.

Run as ``python -m bench.harness.producer MODULE COUNT``: a process of its own, so that every arm
sends from a fresh interpreter of its own Python version. Only the standard library is imported
besides the application.
"""

from __future__ import annotations

import importlib
import json
import sys
import time

#: Sent before the clock starts: connections, lazy imports and scripts are then in place.
WARM_UP = 20


def main(module: str, count: int) -> None:
    """Send ``count`` tasks and print one JSON object with the seconds of all but the first few."""
    noop = importlib.import_module(module).TASKS["noop"]
    warm = min(WARM_UP, count)
    for _ in range(warm):
        noop.delay()
    cpu, start = time.process_time(), time.monotonic()
    for _ in range(count - warm):
        noop.delay()
    seconds = time.monotonic() - start
    print(
        json.dumps(
            {
                "sent": count,
                "timed": count - warm,
                "seconds": seconds,
                "cpu": time.process_time() - cpu,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
