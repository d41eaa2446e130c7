"""What rules read off cells: a figure of the real server, and of the ideal one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bench.harness.figures import Figures, Whole
from bench.harness.summary import CellSummary, Group
from bench.harness.verdicts.verdict import Measured

__all__ = [
    "Reading",
    "cost_us",
    "dominant_p95",
    "max_over_min",
    "miss_rate",
    "over_ideal",
    "p99",
    "priority_spread",
    "quiet_p95",
    "ratio",
    "throughput",
    "wait_max",
]

#: Reads one figure; with ``ideal`` that of the ideal server. None: there is nothing to measure.
Reading = Callable[[CellSummary, bool], float | None]


def _whole(cell: CellSummary, ideal: bool) -> Whole:
    return cell.ideal if ideal else cell.real


def _group(group: Group, ideal: bool) -> Figures:
    return group.ideal if ideal else group.real


def throughput(cell: CellSummary, ideal: bool) -> float | None:
    """Return completed tasks per second."""
    return _whole(cell, ideal).throughput


def miss_rate(cell: CellSummary, ideal: bool) -> float | None:
    """Return the share of deadlines that were missed."""
    return _whole(cell, ideal).miss_rate


def wait_max(cell: CellSummary, ideal: bool) -> float | None:
    """Return the longest wait in seconds."""
    return _whole(cell, ideal).wait_max


def p99(cell: CellSummary, ideal: bool) -> float | None:
    """Return the p99 latency in seconds."""
    return _whole(cell, ideal).latency_p99


def quiet_p95(cell: CellSummary, ideal: bool) -> float | None:
    """Return the p95 latency of all tenants but the one that sends most, in seconds."""
    return None if cell.quiet is None else _group(cell.quiet, ideal).latency_p95


def dominant_p95(cell: CellSummary, ideal: bool) -> float | None:
    """Return the p95 latency of the tenant that sends most, in seconds."""
    return None if cell.quiet is None else _group(cell.tenants[0], ideal).latency_p95


def priority_spread(cell: CellSummary, ideal: bool) -> float | None:
    """Return how many times the fastest priority level's p95 latency the slowest one's is."""
    p95 = [_group(level, ideal).latency_p95 for level in cell.priorities]
    return max_over_min([value for value in p95 if value is not None])


def cost_us(cell: CellSummary) -> float | None:
    """Return what a task cost workers, scheduler and server, in microseconds.

    The server by its own account of commands, where it keeps one, else by its CPU time.
    """
    server = cell.server_cpu_us if cell.server_us is None else cell.server_us
    parts = (cell.worker_us, cell.scheduler_us, server)
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def max_over_min(values: Sequence[float | None]) -> float | None:
    """Return greatest / least; None for less than two values, or one that is missing or 0."""
    known = [value for value in values if value]
    return max(known) / min(known) if len(known) == len(values) >= 2 else None


def over_ideal(cell: CellSummary | None, reading: Reading) -> Measured | None:
    """Return real / ideal of one figure."""
    if cell is None:
        return None
    real, ideal = reading(cell, False), reading(cell, True)
    return None if real is None or not ideal else Measured(real / ideal)


def ratio(
    above: CellSummary | None, below: CellSummary | None, reading: Reading
) -> Measured | None:
    """Return ``above`` / ``below`` of one figure, and what it is for the ideal servers."""
    if above is None or below is None:
        return None
    real, ideal = (_quotient(reading(above, i), reading(below, i)) for i in (False, True))
    return None if real is None else Measured(real, ideal)


def _quotient(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below
