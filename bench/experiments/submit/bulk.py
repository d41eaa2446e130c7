"""Submit in bulk from one process: ``python -m bench.experiments.submit.bulk MODULE COUNT``.

A message of 600 bytes is submitted ``COUNT`` times under new ids through the application's own
``tq.store.submit_many``; ids and submissions are made inside the clock, Celery's building of the
message is left out. Prints what ``bench.harness.producer`` prints.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import uuid

from tq_celery.store.contract import Limits, Receipt, Submission
from tq_celery.store.record import TaskKey

#: Submissions per call, as many as the library takes in one round trip.
CHUNK = 500
#: Bytes of one message: about what Celery sends for a task with a few arguments.
PAYLOAD = b"x" * 600


def main(module: str, count: int) -> None:
    """Submit ``count`` tasks; raises RuntimeError when one is refused."""
    store = importlib.import_module(module).tq.store
    store.submit_many([_submission()], Limits())
    cpu, start = time.process_time(), time.monotonic()
    for sent in range(0, count, CHUNK):
        chunk = [_submission() for _ in range(min(CHUNK, count - sent))]
        for receipt in store.submit_many(chunk, Limits()):
            if not isinstance(receipt, Receipt) or receipt.status != "accepted":
                raise RuntimeError(f"not accepted: {receipt}")
    seconds = time.monotonic() - start
    print(
        json.dumps(
            {
                "sent": count + 1,
                "timed": count,
                "seconds": seconds,
                "cpu": time.process_time() - cpu,
            }
        )
    )


def _submission() -> Submission:
    number = uuid.uuid4()
    return Submission(TaskKey(str(number)), "celery", b"default", PAYLOAD, number.bytes)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
