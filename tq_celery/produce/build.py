"""Makes the application that has the task of workloads and nothing else."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

from tq_celery.app import TQ
from tq_celery.produce.task import register

__all__ = ["QUEUE", "build"]

#: The queue that tasks go to unless another is named.
QUEUE = "produce"


def build(queue: str = QUEUE, **settings: Any) -> Celery:
    """Return a new application; ``settings`` are those of :class:`~tq_celery.TQ`."""
    # The main name is the namespace where no setting names one: the one that `tq` looks at, too.
    made = Celery("celery", set_as_current=False)
    made.conf.update(
        broker_url=os.environ.get("CELERY_BROKER_URL", "memory://localhost"),
        task_default_queue=queue,
        task_ignore_result=True,
        worker_prefetch_multiplier=1,
    )
    register(TQ(made, **settings))
    return made
