"""The task that workloads consist of: it takes as long as it is told, and gives nothing back."""

from __future__ import annotations

import time
from typing import Any, Literal

from tq_celery.app import TQ

__all__ = ["NAME", "Exec", "register", "spend"]

#: The task's name, by which workers know it.
NAME = "tq.work"

#: How its seconds are spent: asleep, or on a processor.
Exec = Literal["sleep", "cpu"]


def register(tq: TQ) -> Any:
    """Declare the task on an application and return it.

    Tenant, cost, priority and deadline come with each call.
    """
    return tq.task(name=NAME, acks_late=True, ignore_result=True)(work)


def work(job: int, seconds: float, exec: Exec = "sleep") -> None:  # noqa: A002
    """Take ``seconds``; ``job`` is the task's number in its workload."""
    spend(seconds, exec)


def spend(seconds: float, how: Exec) -> None:
    """Sleep, or compute until this thread has had ``seconds`` of a processor's time."""
    if how == "cpu":
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            sum(range(200))
    elif seconds > 0:
        time.sleep(seconds)
