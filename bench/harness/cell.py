"""What is run: a cell is one run of one arm under one workload; a profile is what cells share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Cell", "Exec", "Profile", "backlog_name", "duration"]

#: How a task's body spends its seconds: asleep, or on a processor.
Exec = Literal["sleep", "cpu"]


@dataclass(frozen=True, slots=True)
class Profile:
    """What all cells of a run share; every field is part of the manifest.

    ``window`` is the length of the arrivals in seconds, ``long_window`` that of heavy-tailed cells
    (None: the same). ``slots`` are spread over ``workers`` processes of ``pool``. Repetition ``i``
    uses ``seed + i``. ``grace`` is how long after the ideal server's last completion a cell may
    take before it counts as timed out. ``failure`` is the share of attempts that is abandoned
    before the ack. ``deadline`` is base, factor and jitter of
    :class:`~tq_celery.workloads.deadlines.DeadlineRule`.
    """

    name: str
    window: float
    long_window: float | None = None
    slots: int = 16
    workers: int = 2
    pool: str = "threads"
    load: float = 1.25
    repetitions: int = 1
    seed: int = 1
    exec: Exec = "sleep"
    longest: float = 4.0
    failure: float = 0.0
    grace: float = 30.0
    server: str = "redis"
    deadline: tuple[float, float, float] = (1.0, 10.0, 0.2)


@dataclass(frozen=True, slots=True)
class Cell:
    """One run; its fields are the columns that identify a row of ``aggregate.csv``.

    ``arm`` is a name of :mod:`bench.harness.arms`, ``workload`` one of
    :mod:`tq_celery.workloads`, ``load`` the work offered per slot second of the arrivals.
    """

    arm: str
    workload: str
    load: float
    exec: Exec
    repetition: int

    @property
    def name(self) -> str:
        """The cell's word in file names, namespaces and progress lines."""
        return f"{self.workload}-{self.arm}-x{self.load:g}-{self.exec}-r{self.repetition}"


def backlog_name(ms: float) -> str:
    """Return the workload of a backlog of equal tasks that take ``ms`` milliseconds each."""
    return f"fixed-{ms:g}ms"


def duration(workload: str) -> float | None:
    """Return the milliseconds of what :func:`backlog_name` named; None for arrivals."""
    if not (workload.startswith("fixed-") and workload.endswith("ms")):
        return None
    try:
        return float(workload.removeprefix("fixed-").removesuffix("ms"))
    except ValueError:
        return None
