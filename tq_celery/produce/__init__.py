"""Offering a workload to a running deployment: the task it consists of, and how it is submitted.

``register(tq)`` declares that task on an application of one's own, so that its workers run what
``tq produce`` submits. ``tq_celery.produce.app`` is an application that has nothing else.
"""

from tq_celery.produce.task import NAME, register

__all__ = ["NAME", "register"]
