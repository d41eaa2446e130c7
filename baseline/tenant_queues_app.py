"""Stock Celery on Redis with a queue per tenant, read in turn.

Every worker consumes every queue, so the tenants have to be known when it starts; their names come
from the environment. The order of reading is kombu's ``round_robin``: after each message the queue
that gave it goes to the end. There is one priority step, since each step multiplies the keys of
every read.
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu import Queue

from baseline import settings, tasks
from baseline.offer import Work
from baseline.queues import QUEUE, queue_of, tenants

_queues = {name: queue_of(name) for name in tenants()}

app = Celery("baseline", broker=settings.broker("redis://localhost:6379/0"))
app.conf.update(
    settings.COMMON,
    broker_transport_options={"priority_steps": [0], "queue_order_strategy": "round_robin"},
    # Tasks without a tenant go to the default queue, which takes its turn like the others.
    task_queues=[Queue(name) for name in (QUEUE, *_queues.values())],
)
TASKS = tasks.declare(app.task)


def options(work: Work) -> dict[str, Any]:
    """Return the ``apply_async`` options of a task: its tenant's queue.

    Raises KeyError for a tenant that the environment does not name: no worker would read its queue.
    """
    return {"queue": _queues[work.tenant]}
