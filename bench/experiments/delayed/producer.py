"""Send delayed tasks: ``python -m bench.experiments.delayed.producer MODULE COUNT``.

What is sent is in the environment: ``single`` and ``bulk`` wait for an hour, ``burst`` is due at
one instant, which is printed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import repeat
from typing import Any

__all__ = ["AHEAD", "KIND"]

KIND, AHEAD = "DELAYED_KIND", "DELAYED_AHEAD"
#: Seconds that waiting tasks wait.
HOUR = 3600


def single(application: Any, count: int) -> dict[str, float]:
    """Send with ``apply_async(countdown=...)``, one by one."""
    send = application.TASKS["noop"].apply_async
    send(countdown=HOUR)
    return _timed(count - 1, lambda: [send(countdown=HOUR) for _ in range(count - 1)])


def bulk(application: Any, count: int) -> dict[str, float]:
    """Send with ``submit_many``."""
    call: tuple[Any, ...] = (application.TASKS["noop"], (), {}, {"countdown": HOUR})
    return _timed(count, lambda: application.tq.submit_many(repeat(call, count)))


def burst(application: Any, count: int) -> dict[str, float]:
    """Send tasks with one ETA, far enough ahead that all of them are there before."""
    noop, ahead = application.TASKS["noop"], float(os.environ[AHEAD])
    when = datetime.now(UTC) + timedelta(seconds=ahead)
    due = time.monotonic() + ahead
    if hasattr(application, "tq"):
        application.tq.submit_many(repeat((noop, (), {}, {"eta": when}), count))
    else:
        for _ in range(count):
            noop.apply_async(eta=when)
    return {"sent": count, "due": due, "left": due - time.monotonic()}


def _timed(count: int, send: Callable[[], object]) -> dict[str, float]:
    started = time.monotonic()
    send()
    return {"sent": count, "seconds": time.monotonic() - started}


def main(module: str, count: int) -> None:
    """Send ``count`` tasks of the kind that the environment names; prints what was measured."""
    kinds = {each.__name__: each for each in (single, bulk, burst)}
    application = importlib.import_module(module)
    print(json.dumps(kinds[os.environ[KIND]](application, count)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
