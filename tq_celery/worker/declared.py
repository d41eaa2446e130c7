"""How a task wants to be acknowledged, without changing the registered task.

A scheduled task is acknowledged late unless its declaration says ``acks_late=False``: a worker's
loss must not lose it. The setting ``task_acks_late`` is about the application's other tasks.
"""

from __future__ import annotations

from typing import Any

from celery.app.task import Task
from celery.local import Proxy

__all__ = ["acknowledged_late", "scheduled_view"]


class _LateView(Proxy):
    """The task as its request sees it: acknowledged late, and returned when its worker is lost.

    A celery ``Proxy``, because Celery's signals look through one to find the sender.
    """

    acks_late = True
    reject_on_worker_lost = True


class _EarlyView(Proxy):
    """The task as its request sees it: acknowledged when it starts."""

    acks_late = False


def acknowledged_late(task: Any) -> bool:
    """Whether deliveries of ``task`` are settled by their outcome rather than by their start.

    ``False`` only for a declared ``acks_late=False``. Celery's ``bind`` fills what was left open
    from the settings, on the same class and after everything that was declared there; ``__bound__``
    marks that moment in the class dict.
    """
    if task.acks_late:
        return True
    cls = type(task)
    names = list(vars(cls))
    if "acks_late" in names:
        bound = names.index("__bound__") if "__bound__" in names else len(names)
        if names.index("acks_late") < bound:
            return False
    for base in cls.__mro__[1:]:
        if base is Task:
            break
        if vars(base).get("acks_late") is False and "__bound__" not in vars(base):
            return False
    return True


def scheduled_view(task: Any) -> Any:
    """Return ``task`` behind a proxy that answers how its deliveries are acknowledged."""
    view = _LateView if acknowledged_late(task) else _EarlyView
    return view(lambda: task)
