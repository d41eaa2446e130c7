"""The open-loop producer: sends a plan task by task at its moments, whatever the workers do.

Run as ``python -m bench.harness.sender MODULE PLAN SENT HOW``, a process of its own, so that
nothing but sending can make it late. It reads orders from standard input, one a line:

``warm COUNT SECONDS``  send COUNT tasks that take SECONDS, to wake every worker up
``go T0``               send the plan; its second 0 is T0 on the system's monotonic clock

and appends to SENT: ``P JOB SECOND`` for each task of the plan with the instant before the call,
``D`` after the last. It ends with its standard input. Only the standard library and the plan's type
are imported besides the application.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from tq_celery.workloads.work import Work

__all__ = ["read_plan", "task_id", "write_plan"]

#: Seconds before a moment at which sleeping ends: the kernel wakes a sleeper 0.05 to 0.1 ms late.
EARLY = 0.0001


def write_plan(path: Path, plan: Iterable[Work]) -> None:
    """Write the plan, one JSON array a line."""
    path.write_text("".join(json.dumps(work) + "\n" for work in plan))


def read_plan(path: Path) -> list[Work]:
    """Return the plan that :func:`write_plan` wrote."""
    return [Work(*json.loads(line)) for line in path.read_text().splitlines()]


class Sender:
    """Sends the tasks of one application and keeps a record of it."""

    def __init__(self, module: str, plan: list[Work], sent: str, how: str) -> None:
        application = importlib.import_module(module)
        self._task = application.TASKS["work"]
        self._options = application.options
        self._plan, self._how = plan, how
        self._file = os.open(sent, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def _note(self, text: str) -> None:
        os.write(self._file, text.encode())

    def warm(self, count: int, seconds: float) -> None:
        """Send tasks of no account: their jobs are below zero."""
        model = self._plan[0]
        for number in range(count):
            work = model._replace(job=-1 - number, seconds=seconds, cost=min(model.cost, 0.001))
            self._send(work)

    def go(self, start: float) -> None:
        """Send the plan, each task at its moment or as soon after it as possible."""
        # A collection would hold up everything that is due meanwhile. What is made here is freed
        # by counting references; the plan itself is not looked at again.
        gc.collect()
        gc.freeze()
        gc.disable()
        clock, sleep = time.monotonic, time.sleep
        for work in self._plan:
            due = start + work.at
            while (ahead := due - clock()) > 0:
                if ahead > EARLY:
                    sleep(ahead - EARLY)
            now = clock()
            self._send(work, task_id(work.job))
            self._note(f"P {work.job} {now:.6f}\n")
        self._note("D\n")
        gc.enable()

    def _send(self, work: Work, task_id: str | None = None) -> None:
        self._task.apply_async(
            (work.job, work.seconds, self._how), task_id=task_id, **self._options(work)
        )


def task_id(job: int) -> str:
    """Return the id of a job's task, by which a dead letter is recognised."""
    return f"job-{job}"


def main(module: str, plan: str, sent: str, how: str) -> None:
    """Obey orders until standard input ends."""
    sender = Sender(module, read_plan(Path(plan)), sent, how)
    for line in sys.stdin:
        order, *words = line.split()
        if order == "warm":
            sender.warm(int(words[0]), float(words[1]))
        elif order == "go":
            sender.go(float(words[0]))


if __name__ == "__main__":
    main(*sys.argv[1:5])
