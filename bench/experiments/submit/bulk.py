"""Submit in bulk from one process: ``python -m bench.experiments.submit.bulk MODULE COUNT``.

Through the application's own ``tq.submit_many``, building of the messages included. Prints what
``bench.harness.producer`` prints.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from itertools import repeat

from bench.harness.producer import WARM_UP


def main(module: str, count: int) -> None:
    """Submit ``count`` no-op tasks; raises BulkError when one is refused."""
    application = importlib.import_module(module)
    submit_many, call = application.tq.submit_many, (application.TASKS["noop"],)
    warm = min(WARM_UP, count)
    submit_many(repeat(call, warm))
    cpu, start = time.process_time(), time.monotonic()
    submit_many(repeat(call, count - warm))
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
