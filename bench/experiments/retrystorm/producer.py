"""Submit a storm that is due at one instant: ``python -m ...retrystorm.producer MODULE COUNT``."""

from __future__ import annotations

import importlib
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from itertools import repeat

__all__ = ["AHEAD", "NAME"]

NAME = "STORM_TASK"
#: Seconds until all of it is due, so that sending is over by then.
AHEAD = 2.0


def main(module: str, count: int) -> None:
    """Submit ``count`` tasks of the arm that the environment names, all with the same ETA."""
    application = importlib.import_module(module)
    task = application.TASKS[os.environ[NAME]]
    when = datetime.now(UTC) + timedelta(seconds=AHEAD)
    application.tq.submit_many(repeat((task, (), {}, {"eta": when}), count))
    print(json.dumps({"sent": count}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
