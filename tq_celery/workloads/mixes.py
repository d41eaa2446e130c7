"""What workloads are made of: whose the tasks are, how urgent, and how long they take."""

from __future__ import annotations

from dataclasses import dataclass

from tq_celery.workloads.arrivals import Bursts
from tq_celery.workloads.durations import Durations, Even

__all__ = ["MIXES", "PRIORITIES", "Mix", "Tenant"]

#: Level and its share of the tasks; level 4 is the most urgent.
PRIORITIES = ((0, 0.50), (1, 0.25), (2, 0.15), (3, 0.07), (4, 0.03))


@dataclass(frozen=True, slots=True)
class Tenant:
    """``share`` of the tasks are its own; the last three are for one whose tasks are all alike.

    ``weight`` is what the workload means it to have; a deployment has to be told.
    """

    name: str
    share: float
    weight: float = 1.0
    seconds: float | None = None
    cost: float | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class Mix:
    """A workload without its rate; ``durations`` is for tenants without run times of their own.

    ``rate`` is in tasks per second, for a workload that has one of its own.
    """

    tenants: tuple[Tenant, ...]
    durations: Durations | None
    bursts: Bursts | None = None
    rate: float | None = None

    @property
    def mean(self) -> float:
        """The mean run time in seconds."""
        if self.durations is not None:
            return self.durations.mean
        return sum(tenant.share * (tenant.seconds or 0.0) for tenant in self.tenants)


_EQUAL = tuple(Tenant(f"tenant-{number}", 0.2) for number in range(1, 6))

_SKEWED = (
    Tenant("big", 0.90),
    Tenant("small-1", 0.03),
    Tenant("small-2", 0.03),
    Tenant("small-3", 0.02),
    Tenant("small-4", 0.02),
)

#: Tasks per second of the llm tenants: one every 25, 40 and 8 ms.
_CHAT, _REPORTS, _AGENTS = 1 / 0.025, 1 / 0.040, 1 / 0.008
_ALL = _CHAT + _REPORTS + _AGENTS

#: Cheap requests first, as a team without fair scheduling would set their priorities.
_LLM = (
    Tenant("chat", _CHAT / _ALL, weight=2.0, seconds=0.090, cost=400.0, priority=2),
    Tenant("reports", _REPORTS / _ALL, seconds=0.180, cost=800.0, priority=0),
    Tenant("agents", _AGENTS / _ALL, seconds=0.100, cost=200.0, priority=4),
)

_SHORT = Even(0.040, 0.060)

#: Those that need no more than their name; :mod:`~tq_celery.workloads.registry` adds the others.
MIXES = {
    "uniform": Mix(_EQUAL, _SHORT),
    "bursty": Mix(_EQUAL, _SHORT, bursts=Bursts()),
    "multi_tenant": Mix(_SKEWED, _SHORT),
    "llm": Mix(_LLM, None, rate=_ALL),
}

#: The tenants of ``heavy_tailed`` and ``fixed``, whose run times are given by the caller.
EQUAL_TENANTS = _EQUAL
