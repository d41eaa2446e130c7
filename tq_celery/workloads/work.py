"""One task of a workload, as every producer, simulator and measure of this project sees it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Work"]


class Work(NamedTuple):
    """One task to submit ``at`` seconds into the run, which takes a slot for ``seconds``.

    ``job`` counts from 0 in order of submission. ``cost`` is in the workload's own unit (seconds
    or tokens), ``priority`` 0 to 255, higher is more urgent, ``deadline`` the seconds from
    submission to completion that are allowed (None: as long as it takes).
    """

    job: int
    at: float
    seconds: float
    tenant: str
    cost: float
    priority: int = 0
    deadline: float | None = None
