"""What is offered: a workload's tasks, the ids they get, and what tells it from every other."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tq_celery.errors import SettingsError
from tq_celery.produce.task import Exec
from tq_celery.workloads.canonical import digest
from tq_celery.workloads.work import Work

__all__ = ["Offer"]

_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


@dataclass(frozen=True)
class Offer:
    """A workload by name with its tasks; task ``job`` has the id ``<prefix>-<seed>-<job>``.

    SettingsError for a prefix that is not 1 to 64 letters, digits or one of ``_.:-``, and for an
    empty queue.
    """

    workload: str
    works: Sequence[Work]
    seed: int
    prefix: str
    exec: Exec = "sleep"
    #: The queue asked for; None is the application's own.
    queue: str | None = None

    def __post_init__(self) -> None:
        if self.queue == "":
            raise SettingsError("queue", self.queue, "a name")
        if not _PREFIX.fullmatch(self.prefix):
            raise SettingsError("prefix", self.prefix, "1 to 64 letters, digits or _ . : -")

    @property
    def run(self) -> str:
        """The name of the run, which its ids begin with."""
        return f"{self.prefix}-{self.seed}"

    def task_id(self, job: int) -> str:
        """Return the id of a task."""
        return f"{self.run}-{job}"

    @cached_property
    def digest(self) -> str:
        """What tells these tasks from all others, in hexadecimal."""
        return hashlib.sha256(f"{digest(self.works)} {self.exec} {self.queue}".encode()).hexdigest()

    @property
    def span(self) -> float:
        """Seconds from the first to the last submission."""
        return self.works[-1].at

    @property
    def seconds(self) -> float:
        """Worker seconds of all tasks."""
        return sum(work.seconds for work in self.works)

    def by_tenant(self) -> dict[str, int]:
        """Return how many tasks each tenant has, most first."""
        counts = Counter(work.tenant for work in self.works)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def call(self, task: Any, work: Work, options: dict[str, Any]) -> tuple[Any, ...]:
        """Return one task's call, as :meth:`~tq_celery.TQ.submit_many` takes it."""
        own: dict[str, Any] = {
            "task_id": self.task_id(work.job),
            "tenant": work.tenant,
            "cost": work.cost,
            "priority": work.priority,
        }
        if work.deadline is not None:
            own["deadline"] = work.deadline
        return task, (work.job, work.seconds, self.exec), {}, own | options
