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

    Tenant, cost, priority and deadline come with each call. No call goes to the broker, whatever
    the settings say: a run has to know where its tasks are.
    """
    declare = tq.task(
        name=NAME, fraction=1.0, on_unavailable="raise", acks_late=True, ignore_result=True
    )
    return declare(work)


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
