"""Attempts that are abandoned before the ack: the process of the pool is killed under its task.

``BASELINE_FAILURE`` holds ``share seed path``. At the end of its body an attempt is abandoned with
probability ``share``: the process sends itself SIGKILL, so that nothing of what Celery does after
a body happens, as when the kernel's memory killer strikes. Whether it does is drawn from the seed,
the job and the number of the attempt alone, the same in every arm. Attempts are counted in
``path``, one byte a job, since a killed process remembers nothing.

Only for the prefork pool: in the others the process is the worker.
"""

from __future__ import annotations

import mmap
import os
import random
import signal

__all__ = ["VARIABLE", "abandon", "abandons", "attempt"]

#: Environment variable with share, seed and file; without it no attempt is abandoned.
VARIABLE = "BASELINE_FAILURE"

_plan: tuple[float, int, mmap.mmap] | None = None


def abandons(share: float, seed: int, job: int, attempt: int) -> bool:
    """Return whether this attempt (the first is 1) is abandoned. Pure."""
    return random.Random(f"{seed} {job} {attempt}").random() < share


def _read_plan() -> tuple[float, int, mmap.mmap] | None:
    global _plan
    text = os.environ.get(VARIABLE)
    if _plan is None and text is not None:
        share, seed, path = text.split(" ", 2)
        with open(path, "r+b") as file:  # noqa: PTH123
            _plan = float(share), int(seed), mmap.mmap(file.fileno(), 0)
    return _plan


def attempt(job: int) -> bool:
    """Count one more attempt at ``job`` and return whether it will be abandoned."""
    plan = _read_plan()
    if plan is None or job < 0:
        return False
    share, seed, attempts = plan
    attempts[job] = min(attempts[job] + 1, 255)
    return abandons(share, seed, job, attempts[job])


def abandon() -> None:
    """End this process at once."""
    os.kill(os.getpid(), signal.SIGKILL)
