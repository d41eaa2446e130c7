"""Send tasks at a steady rate, and note the fate of every call.

Run as ``python -m bench.harness.failures.producer FILE ORDERS``, where ``ORDERS`` is the JSON of
:class:`~bench.harness.failures.load.Orders`. Each task has its id before it is sent. A line of the
file is written with one ``write`` as soon as the call has returned:

=======================  ===========================================================
``A ID SECONDS``         accepted
``R ID SECONDS ERROR``   refused: the server certainly did not take it
``U ID SECONDS ERROR``   unknown: the server went away with it
=======================  ===========================================================

Seconds are on the system's monotonic clock. With ``again`` a call that was not accepted is made
again under the same id until it is, or until the end of the patience.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import time
import uuid
from pathlib import Path
from typing import IO

from kombu.exceptions import OperationalError

from bench.harness.failures.app import app, tq
from bench.harness.failures.load import Orders
from tq_celery.errors import BulkError, TQError

#: Seconds between two attempts of a call that was not accepted.
PAUSE = 0.05

Call = tuple[str, dict[str, object]]


def main(path: Path, orders: Orders) -> None:
    """Send open-loop: a task's time does not depend on how long earlier ones took to send."""
    source = random.Random(orders.seed)
    total = round(orders.rate * orders.seconds)
    with path.open("w", buffering=1) as file:
        _send(orders, [_call(orders, source)], file, time.monotonic())  # connects, loads scripts
        # Looking for garbage among the application's own objects would hold up the load for ten
        # milliseconds, in the midst of a measurement.
        gc.freeze()
        start = time.monotonic()
        give_up = start + orders.seconds + orders.patience
        for sent in range(0, total, orders.batch):
            wait = start + sent / orders.rate - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            calls = [_call(orders, source) for _ in range(min(orders.batch, total - sent))]
            _send(orders, calls, file, give_up)
        file.write("END\n")


def _call(orders: Orders, source: random.Random) -> Call:
    task_id = str(uuid.UUID(int=source.getrandbits(128), version=4))
    return task_id, {"task_id": task_id, "tenant": source.choice(orders.tenants)}


def _send(orders: Orders, calls: list[Call], file: IO[str], give_up: float) -> None:
    while calls:
        refused = _once(orders, calls)
        now = time.monotonic()
        file.write(
            "".join(
                f"A {task_id} {now:.6f}\n"
                if (error := refused.get(task_id)) is None
                else f"{'R' if _undone(error) else 'U'} {task_id} {now:.6f} {_word(error)}\n"
                for task_id, _ in calls
            )
        )
        if not orders.again or now > give_up:
            return
        calls = [each for each in calls if each[0] in refused]
        if calls:
            time.sleep(PAUSE)


def _once(orders: Orders, calls: list[Call]) -> dict[str, Exception]:
    """Make the calls; return the errors of those that were not accepted."""
    task, args = app.tasks[orders.task], tuple(orders.args)
    try:
        if len(calls) == 1:
            task.apply_async(args, **calls[0][1])
        else:
            tq.submit_many((task, args, {}, options) for _, options in calls)
    except BulkError as error:
        return {calls[index][0]: each for index, each in error.errors.items()}
    except (OperationalError, TQError) as error:
        return {calls[0][0]: error}
    return {}


def _undone(error: Exception) -> bool:
    """Whether the server certainly did not take the task and will not."""
    if isinstance(error, TQError):
        return bool(getattr(error, "undone", True))
    return bool(getattr(error.__cause__, "undone", False))


def _word(error: Exception) -> str:
    """Return the server's word for a refusal, or the kind of the error."""
    cause = error.__cause__ or error
    return getattr(cause, "refusal", "") or type(cause).__name__


if __name__ == "__main__":
    main(Path(sys.argv[1]), Orders(**json.loads(sys.argv[2])))
