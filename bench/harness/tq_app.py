"""The arm under test: the baseline's tasks on stock Celery and Redis, attached with ``TQ``.

The main broker is the same stock Redis as in ``baseline/redis_app.py``; ``TQ_URL`` and
``TQ_NAMESPACE`` say where the scheduled tasks go.
"""

from __future__ import annotations

from typing import Any

from celery import Celery

from baseline import settings, tasks
from tq_celery import TQ
from tq_celery.workloads.work import Work

app = Celery("baseline", broker=settings.broker("redis://localhost:6379/0"))
app.conf.update(settings.COMMON)
tq = TQ(app)
TASKS = tasks.declare(tq.task)


def options(work: Work) -> dict[str, Any]:
    """Return the ``apply_async`` options of a task: all that any policy may read."""
    read: dict[str, Any] = {
        "tenant": work.tenant, "cost": work.cost, "priority": work.priority,
    }  # fmt: skip
    return read if work.deadline is None else {**read, "deadline": work.deadline}
