"""Wait for a condition with a description; never sleep and hope."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

#: Seconds that a test waits for what has to come. It costs nothing where that comes, and a machine
#: that has other work to do may take long to start a process.
PATIENCE = 30.0
#: Seconds that such a machine may add to a time that the product promises.
BUSY = 5.0


def wait_until(
    condition: Callable[[], T], description: str, timeout: float = PATIENCE,
    interval: float = 0.01, last: Callable[[], object] | None = None,
) -> T:  # fmt: skip
    """Return the condition's first true value; fail with the description after ``timeout`` s.

    The failure tells what the condition said last, or what ``last`` finds then.
    """
    give_up = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > give_up:
            found = value if last is None else last()
            raise AssertionError(f"not within {timeout:g} s: {description} (last: {found!r})")
        time.sleep(interval)


@dataclass(frozen=True)
class Activity:
    """What a process has done so far: CPU seconds, and how often one of its threads woke up."""

    cpu: float
    wakeups: int

    @classmethod
    def of(cls, pid: int) -> Activity:
        """Read it from ``/proc``."""
        cpu, wakeups = 0.0, 0
        for task in Path(f"/proc/{pid}/task").iterdir():
            try:
                fields = (task / "stat").read_text().rpartition(")")[2].split()
                status = (task / "status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # a thread that has just ended
            cpu += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            wakeups += int(status.partition("voluntary_ctxt_switches:")[2].split()[0])
        return cls(cpu, wakeups)


def assert_idle(pid: int, seconds: float, wakeups_per_s: float) -> None:
    """Watch a process that has nothing to do: it neither polls nor spins.

    A poll shows in its wake-ups and a spin in its CPU time, both many times over these bounds. How
    little CPU a wake-up takes is for ``python -m bench latency`` to say: it depends on the machine.
    """
    before = Activity.of(pid)
    time.sleep(seconds)
    after = Activity.of(pid)
    assert (after.wakeups - before.wakeups) / seconds < wakeups_per_s
    assert (after.cpu - before.cpu) / seconds < 0.25
