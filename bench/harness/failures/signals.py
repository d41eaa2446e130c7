"""Signals to processes, each confirmed before it counts."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path

from bench.harness.process import Process, until

__all__ = ["descendants", "freeze", "kill", "resume", "state"]

#: Seconds within which a signal has to show.
SHOWS = 10.0


def state(pid: int) -> str:
    """Return the kernel's letter for a process (``T`` is stopped), empty when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return text.rpartition(")")[2].split()[0]


def _parent(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(text.rpartition(")")[2].split()[1])


def descendants(pid: int) -> list[int]:
    """Return the ids of the children of ``pid``, their children and so on."""
    parents = {int(each): _parent(int(each)) for each in os.listdir("/proc") if each.isdigit()}
    found, level = list[int](), [pid]
    while level:
        level = [child for child, parent in parents.items() if parent in level]
        found += level
    return found


def _family(process: Process) -> list[int]:
    # The id of a process that has ended may be somebody else's by now.
    return [process.pid, *descendants(process.pid)] if process.alive else []


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def freeze(process: Process) -> None:
    """Stop the process and all its children (SIGSTOP); returns once all of them stand still.

    Children with a session of their own are stopped as well, as when a container is paused.
    """
    members = _family(process)
    _send(members, signal.SIGSTOP)
    until(lambda: all(state(pid) in ("T", "Z", "") for pid in members), "SIGSTOP to show", SHOWS)


def resume(process: Process) -> None:
    """Let a frozen process and its children go on (SIGCONT)."""
    members = _family(process)
    _send(members, signal.SIGCONT)
    until(lambda: all(state(pid) != "T" for pid in members), "SIGCONT to show", SHOWS)


def kill(process: Process) -> None:
    """Kill the process and its children (SIGKILL), as when a container is killed."""
    members = _family(process)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    _send(members, signal.SIGKILL)
    until(
        lambda: not process.alive and all(state(pid) in ("Z", "") for pid in members),
        "SIGKILL to show", SHOWS,
    )  # fmt: skip
