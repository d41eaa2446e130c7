"""Send unimportant tasks, then critical ones: ``python -m ...priority.producer MODULE COUNT``.

``COUNT`` of each; jobs from 0 are unimportant, jobs from ``COUNT`` critical. The environment
says for how many seconds each sleeps.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from tq_celery.workloads.work import Work

__all__ = ["CRITICAL", "LOW", "SECONDS"]

SECONDS = "PRIORITY_SECONDS"
#: The least and the most urgent of the five levels.
LOW, CRITICAL = 0, 4


def main(module: str, count: int) -> None:
    """Send them one by one, in this order."""
    application, seconds = importlib.import_module(module), float(os.environ[SECONDS])
    work = application.TASKS["work"]
    for job in range(2 * count):
        level = LOW if job < count else CRITICAL
        task = Work(job=job, at=0.0, tenant="one", priority=level, cost=1.0, seconds=seconds)
        work.apply_async((job, seconds, "sleep"), **application.options(task))
    print(json.dumps({"sent": 2 * count}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
