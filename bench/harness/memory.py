"""Resident memory of a process and its children, from ``/proc``."""

from __future__ import annotations

from pathlib import Path

from bench.harness.errors import BenchError

__all__ = ["resident"]


def resident(pid: int) -> float:
    """Return resident MiB of a process and its descendants; shared pages count for each of them.

    Raises BenchError where there is no ``/proc`` and when the process is gone.
    """
    try:
        total = _kib(Path(f"/proc/{pid}/status").read_text())
    except FileNotFoundError:
        raise BenchError(f"process {pid} has ended, or there is no /proc") from None
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            total += resident(int(child))
    return total


def _kib(status: str) -> float:
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
