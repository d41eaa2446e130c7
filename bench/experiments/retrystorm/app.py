"""The tasks of the storm: the same body that fails so many times, under three kinds of back-off.

The environment names the file for the moments, how often each task fails, and the seed.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

from celery import Celery
from celery.signals import task_retry

from baseline import settings
from bench.experiments.retrystorm.moments import BASE, CAP
from tq_celery import TQ

__all__ = ["ARMS", "FAILURES", "FILE", "SEED", "TASKS", "app", "tq"]

FILE, FAILURES, SEED = "STORM_FILE", "STORM_FAILURES", "STORM_SEED"
#: ``retry_backoff`` and ``retry_jitter`` of each arm.
ARMS: dict[str, tuple[Any, bool]] = {
    "exponential": (BASE, False),
    "full_jitter": (BASE, True),
    "decorrelated": ("decorrelated", True),
}

app = Celery("storm", broker=settings.broker("redis://localhost:6379/0"))
app.conf.update(settings.COMMON)
tq = TQ(app)

random.seed(int(os.environ.get(SEED, "1")))
_file = open(os.environ[FILE], "ab", buffering=0) if FILE in os.environ else None  # noqa: PTH123, SIM115


def note(kind: str, retries: int, moment: float) -> None:
    """Append one line; a single write in append mode, so lines of parallel tasks never mix."""
    if _file is not None:
        _file.write(f"{kind} {retries} {moment:.6f}\n".encode())


def _declare(name: str) -> Any:
    backoff, jitter = ARMS[name]

    @tq.task(
        name=f"storm.{name}", bind=True, autoretry_for=(ConnectionError,), max_retries=None,
        retry_backoff=backoff, retry_backoff_max=CAP, retry_jitter=jitter,
    )  # fmt: skip
    def ask(self: Any) -> None:
        """Ask a service that does not answer the first times."""
        note("start", self.request.retries, time.monotonic())
        if self.request.retries < int(os.environ[FAILURES]):
            raise ConnectionError("no answer")

    return ask


TASKS = {name: _declare(name) for name in ARMS}


@task_retry.connect(weak=False)
def _planned(request: Any = None, reason: Any = None, **_: Any) -> None:
    note("due", request.retries + 1, time.monotonic() + reason.when)
