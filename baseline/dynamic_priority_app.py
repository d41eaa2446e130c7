"""Stock Celery on Redis where a tenant's next task is less urgent the more it has under way.

The recipe of https://dev.to/ykimura/ensuring-fair-processing-with-celery-part-ii-3jm9: a counter
per tenant in Redis, one level down for every ten tasks that wait or run, ten levels. Here the
counter is kept by signals, so that every way of sending counts, and one INCR both counts and reads.
A task that never ends, because its worker died, stays counted: that is part of the recipe.
"""

from __future__ import annotations

from typing import Any

import redis
from celery import Celery
from celery.signals import before_task_publish, task_postrun

from baseline import settings, tasks
from baseline.offer import Work
from baseline.queues import DYNAMIC_LEVELS

#: Tasks under way for each level of priority.
_TASKS_A_LEVEL = 10
#: kombu's least urgent level; 0 is the most urgent.
_LEAST_URGENT = DYNAMIC_LEVELS - 1
#: The header that says whose task it is.
_TENANT = "tenant"

_broker = settings.broker("redis://localhost:6379/0")
_counters = redis.Redis.from_url(_broker)

app = Celery("baseline", broker=_broker)
app.conf.update(
    settings.COMMON,
    broker_transport_options={
        "priority_steps": list(range(DYNAMIC_LEVELS)),
        "sep": ":",
        "queue_order_strategy": "priority",
    },
)
TASKS = tasks.declare(app.task)


def options(work: Work) -> dict[str, Any]:
    """Return the ``apply_async`` options of a task: a header with its tenant."""
    return {"headers": {_TENANT: work.tenant}}


def _key(tenant: str) -> str:
    return f"under-way:{tenant}"


@before_task_publish.connect
def _count_up(headers: dict[str, Any], properties: dict[str, Any], **_: Any) -> None:
    """Count the task and give it the priority that its tenant's count allows."""
    tenant = headers.get(_TENANT)
    if tenant is not None:
        others = int(_counters.incr(_key(tenant))) - 1
        properties["priority"] = min(others // _TASKS_A_LEVEL, _LEAST_URGENT)


@task_postrun.connect
def _count_down(task: Any, **_: Any) -> None:
    """Forget a task that has run, whatever came of it."""
    tenant = (task.request.headers or {}).get(_TENANT)
    if tenant is not None:
        _counters.decr(_key(tenant))
