"""The demo's work: the same tasks, at the same times, for both arms."""

from __future__ import annotations

import random

from tq_celery.workloads.work import Work

__all__ = ["FLOOD", "QUIET", "SLOTS", "make_work"]

#: The tenant that sends everything at once, and those that send a task now and then.
FLOOD = "globex"
QUIET = ("acme", "initech")

#: Places in the worker where a task can run.
SLOTS = 8

#: The flood: so many tasks, evenly over so many seconds from then on.
_FLOOD_TASKS, _FLOOD_FROM, _FLOOD_FOR = 520, 1.0, 3.0

#: Each quiet tenant: one task per so many seconds on average, until then.
_QUIET_EVERY, _QUIET_UNTIL = 0.4, 11.0

#: Seconds that one task takes.
_SHORTEST, _LONGEST = 0.06, 0.24


def make_work(seed: int) -> list[Work]:
    """Return the tasks in order of submission; the same ``seed`` gives the same tasks."""
    rng = random.Random(seed)
    planned = [(_FLOOD_FROM + _FLOOD_FOR * i / _FLOOD_TASKS, FLOOD) for i in range(_FLOOD_TASKS)]
    for tenant in QUIET:
        at = rng.uniform(0.0, _QUIET_EVERY)
        while at < _QUIET_UNTIL:
            planned.append((at, tenant))
            at += rng.uniform(0.5, 1.5) * _QUIET_EVERY
    works = []
    for job, (at, tenant) in enumerate(sorted(planned)):
        seconds = rng.uniform(_SHORTEST, _LONGEST)
        works.append(Work(job, at, seconds, tenant, seconds))
    return works
