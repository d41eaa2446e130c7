"""Which cells a head-to-head has: durations and workloads, every arm next to its rivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.harness.cell import Cell, Profile, backlog_name

__all__ = [
    "DURATIONS",
    "FULL",
    "OURS",
    "QUICK",
    "SMOKE",
    "STOCK",
    "WORKLOADS",
    "Plan",
    "cells",
]

#: Stock Celery, as people run it and as people work around its order.
STOCK = (
    "redis", "redis-priority", "rabbitmq", "rabbitmq-priority", "tenant-queues",
    "dynamic-priority", "redis-plus",
)  # fmt: skip
OURS = ("tq-fifo", "tq-priority", "tq-edf", "tq-wfq")
#: Milliseconds that a task of a backlog takes.
DURATIONS = (0, 1, 2, 5, 10, 20, 50)
WORKLOADS = ("uniform", "bursty", "heavy_tailed", "multi_tenant")


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of it is run.

    ``span`` is the seconds for which a backlog keeps ideal slots busy, ``most`` its largest number
    of tasks; the repetitions are those of the durations, workloads have the profile's.
    ``multipliers`` are the prefetch settings tried for backlogs of short and of long tasks, and
    ``ordered`` those for arrivals.
    """

    durations: tuple[int, ...]
    workloads: tuple[str, ...]
    repetitions: int
    span: float
    most: int
    multipliers: tuple[int, ...]
    ordered: tuple[int, ...]


SMOKE = Plan((0, 5), ("multi_tenant",), 1, 0.5, 1_000, (4,), (1,))
QUICK = Plan((0, 5, 50), ("uniform", "multi_tenant"), 1, 2.0, 4_000, (4, 16), (1,))
FULL = Plan(DURATIONS, WORKLOADS, 3, 5.0, 8_000, (1, 4, 16, 64), (1, 4))


def cells(plan: Plan, arms: Sequence[str], profile: Profile) -> list[Cell]:
    """Return every cell, repetition by repetition, the order of the arms turning round each time.

    What an interrupted run has is then whole repetitions of everything. A backlog has no load.
    """
    found = []
    for repetition in range(max(plan.repetitions, profile.repetitions)):
        turned = arms if repetition % 2 == 0 else arms[::-1]
        places = []
        if repetition < plan.repetitions:
            places += [(backlog_name(ms), 0.0) for ms in plan.durations]
        if repetition < profile.repetitions:
            places += [(workload, profile.load) for workload in plan.workloads]
        for workload, load in places:
            found += [Cell(arm, workload, load, profile.exec, repetition) for arm in turned]
    return found
