"""Send the tasks of the crash: ``python -m bench.experiments.crash.producer MODULE COUNT``.

``CRASH_FIRST`` in the environment is the number of the first job, 0 without it.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

__all__ = ["FIRST", "PREFIX"]

FIRST = "CRASH_FIRST"
#: Ids are this and the number of the job, so that the server's books can be read by job.
PREFIX = "crash-"


def main(module: str, count: int) -> None:
    """Send ``count`` jobs."""
    hold = importlib.import_module(module).TASKS["hold"]
    first = int(os.environ.get(FIRST, "0"))
    for job in range(first, first + count):
        hold.apply_async((job,), task_id=f"{PREFIX}{job}")
    print(json.dumps({"sent": count}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
