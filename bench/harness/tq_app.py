"""The arm under test: the baseline's tasks on stock Celery and Redis, attached with ``TQ``.

The main broker is the same stock Redis as in ``baseline/redis_app.py``; ``TQ_URL`` and
``TQ_NAMESPACE`` say where the scheduled tasks go.
"""

from __future__ import annotations

from celery import Celery

from baseline import settings, tasks
from tq_celery import TQ

app = Celery("baseline", broker=settings.broker("redis://localhost:6379/0"))
app.conf.update(settings.COMMON)
tq = TQ(app)
TASKS = tasks.declare(tq.task)
