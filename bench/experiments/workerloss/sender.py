"""Send what the experiment orders, one line of JSON on standard input at a time.

Run as ``python -m bench.experiments.workerloss.sender FILE``. Orders:

* ``{"task": NAME, "args": [...], "count": N, "rate": R}``: ``N`` tasks, ``R`` per second (0: at
  once);
* ``{"chord": N}``: a chord of the task that kills its process and ``N`` others.

A line of the file says, once the call has returned, ``ID TASK``; for a chord all its parts, and the
body as ``ID body``. A call that fails ends the program: nothing here disturbs the server.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from pathlib import Path
from typing import IO, Any

from celery import chord

from bench.experiments.workerloss.app import app, deadly, part, total

#: Tenants by turns, so that more than one has slots to be counted.
TENANTS = ("a", "b", "c")


def main(out: Path) -> None:
    """Obey until standard input ends."""
    with out.open("w", buffering=1) as file:
        for line in sys.stdin:
            order = json.loads(line)
            if "chord" in order:
                _chord(order["chord"], file)
            else:
                _send(order, file)


def _send(order: dict[str, Any], file: IO[str]) -> None:
    start = time.monotonic()
    for number in range(order["count"]):
        if order["rate"]:
            time.sleep(max(0.0, start + number / order["rate"] - time.monotonic()))
        task_id = str(uuid.uuid4())
        app.tasks[order["task"]].apply_async(
            order["args"], task_id=task_id, tenant=TENANTS[number % len(TENANTS)]
        )
        file.write(f"{task_id} {order['task']}\n")


def _chord(others: int, file: IO[str]) -> None:
    parts = [deadly.s().set(task_id=str(uuid.uuid4()))]
    parts += [part.s(number).set(task_id=str(uuid.uuid4())) for number in range(others)]
    body = chord(parts)(total.s())
    lines = [f"{each.options['task_id']} {each.task}\n" for each in parts]
    file.write("".join(lines) + f"{body.id} body\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
