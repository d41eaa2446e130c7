"""Rows of the lab by hand, for tests of what is computed from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.harness.cell import Cell, Exec
from bench.harness.record import Ending, Row, Run

__all__ = ["make_row", "make_run"]


def make_row(
    job: int = 0, submitted: float = 0.0, wait: float = 0.0, held: float = 1.0, **more: Any
) -> Row:
    """Return a completed task; ``more`` are fields of the row."""
    started = submitted + wait
    row = Row(
        job=job, tenant="a", priority=0, cost=held, seconds=held, deadline=None,
        scheduled=submitted, submitted=submitted, lag=0.0,
        started=started, finished=started + held, executions=1, outcome="completed",
    )  # fmt: skip
    return row._replace(**more)


def make_run(
    rows: Sequence[Row],
    ideal: Sequence[Row] | None = None,
    *,
    arm: str = "tq-fifo",
    workload: str = "uniform",
    load: float = 1.25,
    exec_: Exec = "sleep",
    repetition: int = 0,
    ending: Ending = "complete",
    slots: int = 2,
    **more: Any,
) -> Run:
    """Return a cell; what is ideal is what happened unless given."""
    return Run(
        cell=Cell(arm, workload, load, exec_, repetition), seed=1 + repetition, slots=slots,
        rows=tuple(rows), ideal=tuple(rows if ideal is None else ideal), ending=ending, **more,
    )  # fmt: skip
