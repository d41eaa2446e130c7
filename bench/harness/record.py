"""What is kept of a cell: one row per task, and how the cell ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from bench.harness.cell import Cell

__all__ = ["Ending", "Outcome", "Row", "Run"]

#: Where a task ended up. ``missing``: it never finished while the cell was watched.
Outcome = Literal["completed", "dead", "missing"]
#: How a cell ended. Only ``complete`` ones are averaged.
Ending = Literal["complete", "truncated", "timed-out", "failed"]


class Row(NamedTuple):
    """One task; times are seconds since the first planned arrival, on the monotonic clock.

    ``scheduled`` is the planned arrival, ``submitted`` the instant before the call, ``lag`` how
    late that was. ``started`` and ``finished`` belong to the execution that completed; both are
    None unless the outcome is ``completed``. ``executions`` counts every start of the body.
    """

    job: int
    tenant: str
    priority: int
    cost: float
    seconds: float
    deadline: float | None
    scheduled: float
    submitted: float
    lag: float
    started: float | None
    finished: float | None
    executions: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Run:
    """One cell as it happened, and what the ideal server made of the same seed.

    ``slots`` is how many tasks could run at a time. CPU is in seconds from the order to send until
    the last completion was seen; ``server_us`` is the server's own account of commands and scripts
    in microseconds (0 where it keeps none). ``others`` are the cores that processes which have no
    part in it kept busy meanwhile (None: not known). ``versions`` names the servers used.
    """

    cell: Cell
    seed: int
    slots: int
    rows: tuple[Row, ...]
    ideal: tuple[Row, ...]
    ending: Ending
    reason: str = ""
    elapsed: float = 0.0
    worker_cpu: float = 0.0
    scheduler_cpu: float = 0.0
    server_cpu: float = 0.0
    server_us: float = 0.0
    producer_cpu: float = 0.0
    others: float | None = None
    dead_letters: tuple[dict[str, object], ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
