"""Send tasks at a steady rate through every outage, and note what was accepted.

Run as ``python -m bench.experiments.soak.producer RATE SECONDS SEED FILE``. Each task has its id
before it is sent, so one whose fate is unknown is simply sent again under the same id. Lines of the
file: ``KIND ID`` once the call has returned.
"""

from __future__ import annotations

import random
import sys
import time
import uuid
from pathlib import Path
from typing import IO

from kombu.exceptions import OperationalError

from bench.experiments.soak.app import KINDS, failing, retried, tq, work
from tq_celery.errors import BulkError

#: Shortest and longest task in seconds.
SHORTEST, LONGEST = 0.02, 0.08
#: One send in so many is a bulk call of :data:`BULK` tasks.
BULK_EVERY, BULK = 100, 10
#: After the planned end, seconds until a task that is still refused counts as never sent.
PATIENCE = 60.0
TENANTS = ("flood", "flood", "flood", "flood", "a", "b", "c")
_TASKS = {"work": work, "delayed": work, "retried": retried, "failing": failing}


def main(rate: float, seconds: float, seed: int, out: Path) -> None:
    """Send open-loop: a task's time does not depend on how long earlier ones took to send."""
    source = random.Random(seed)
    start = time.monotonic()
    give_up = start + seconds + PATIENCE
    sent = 0
    with out.open("w", buffering=1) as file:
        while sent < rate * seconds:
            time.sleep(max(0.0, start + sent / rate - time.monotonic()))
            many = BULK if source.randrange(BULK_EVERY * BULK) < BULK else 1
            _send([_call(source) for _ in range(many)], file, give_up)
            sent += many


def _call(source: random.Random) -> tuple[str, tuple[float], dict[str, object]]:
    """Return kind, arguments and options of a random task."""
    kind = source.choices(list(KINDS), list(KINDS.values()))[0]
    options: dict[str, object] = {
        "task_id": str(uuid.UUID(int=source.getrandbits(128), version=4)),
        "tenant": source.choice(TENANTS),
    }
    if kind == "delayed":
        options["countdown"] = source.uniform(0.5, 3.0)
    return kind, (round(source.uniform(SHORTEST, LONGEST), 4),), options


def _send(
    calls: list[tuple[str, tuple[float], dict[str, object]]], file: IO[str], give_up: float
) -> None:
    while True:
        try:
            if len(calls) == 1:
                kind, args, options = calls[0]
                _TASKS[kind].apply_async(args, **options)
            else:
                tq.submit_many((_TASKS[kind], args, {}, options) for kind, args, options in calls)
        except (OperationalError, BulkError):
            if time.monotonic() > give_up:
                return
            time.sleep(0.1)
        else:
            break
    for kind, _, options in calls:
        file.write(f"{kind} {options['task_id']}\n")


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
