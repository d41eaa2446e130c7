"""The tasks of every arm: plain functions, declared on whichever application runs them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from baseline import counter, events, failing

__all__ = ["declare", "noop", "timed", "work"]


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


def work(job: int, seconds: float, how: str) -> None:
    """Take a slot for ``seconds``: asleep (``sleep``) or on a processor (``cpu``), and record it.

    On a processor the seconds are CPU time of this thread: a body that has to share its core takes
    longer, as real work does. An attempt that is to be abandoned is so after the work is done.
    """
    events.note("S", job)
    abandoned = failing.attempt(job)
    if how == "cpu":
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
    else:
        time.sleep(seconds)
    if abandoned:
        events.note("K", job)
        failing.abandon()
    events.note("E", job)


def declare(task: Callable[..., Callable[[Any], Any]]) -> dict[str, Any]:
    """Declare the tasks with an application's ``task`` decorator and return them by name."""
    return {
        body.__name__: task(name=f"baseline.{body.__name__}", acks_late=True)(body)
        for body in (noop, timed, work)
    }
