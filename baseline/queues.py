"""Names of queues on Redis: what an application declares and what an experiment counts."""

from __future__ import annotations

import os

__all__ = ["DYNAMIC_LEVELS", "LEVELS", "QUEUE", "TENANTS", "lists", "queue_of", "tenants"]

#: Celery's default queue.
QUEUE = "celery"
#: Levels of priority that the workloads use.
LEVELS = 5
#: Levels of kombu on Redis, all of which the dynamic priority uses.
DYNAMIC_LEVELS = 10
#: Environment variable with the names of the tenants, separated by commas.
TENANTS = "BASELINE_TENANTS"


def lists(levels: int) -> tuple[str, ...]:
    """Return the Redis lists of the default queue, the most urgent first.

    With ``sep=":"`` kombu appends the step, which it leaves away for step 0.
    """
    return (QUEUE, *(f"{QUEUE}:{step}" for step in range(1, levels)))


def queue_of(tenant: str) -> str:
    """Return the name of a tenant's own queue."""
    return f"tenant-{tenant}"


def tenants() -> tuple[str, ...]:
    """Return the tenants that the environment names."""
    return tuple(filter(None, os.environ.get(TENANTS, "").split(",")))
