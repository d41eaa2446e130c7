"""An application that has the task of workloads and nothing else, for workers and producers.

::

    TQ_URL=redis://host:6379/0 celery -A tq_celery.produce.app worker --pool threads

``TQ_URL``, ``TQ_NAMESPACE`` and the other ``TQ_*`` variables say where its tasks are. It has a
queue of its own, and needs no broker: without ``CELERY_BROKER_URL`` Celery gets one in its memory.
"""

from tq_celery.produce.build import build

__all__ = ["app"]

app = build()
