"""The tasks of every arm: plain functions, declared on whichever application runs them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from baseline import counter

__all__ = ["declare", "noop", "timed"]


def noop() -> None:
    """Do nothing but count that it ran."""
    counter.hit()


def timed(path: str, submitted: float, seconds: float) -> None:
    """Sleep, then append ``submitted``, start and end (monotonic seconds) to ``path`` as a line."""
    started = time.monotonic()
    time.sleep(seconds)
    line = f"{submitted:.6f} {started:.6f} {time.monotonic():.6f}\n"
    # One short write in append mode, so lines of parallel tasks never mix.
    with open(path, "ab", buffering=0) as file:  # noqa: PTH123
        file.write(line.encode())


def declare(task: Callable[..., Callable[[Any], Any]]) -> dict[str, Any]:
    """Declare the tasks with an application's ``task`` decorator and return them by name."""
    return {
        body.__name__: task(name=f"baseline.{body.__name__}", acks_late=True)(body)
        for body in (noop, timed)
    }
