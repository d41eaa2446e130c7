"""How a task wants to be acknowledged, without changing the registered task.

A scheduled task is acknowledged late unless its declaration says ``acks_late=False``: a worker's
loss must not lose it. For the same reason it runs again when its pool process is lost, unless the
declaration says ``reject_on_worker_lost=False``. The settings ``task_acks_late`` and
``task_reject_on_worker_lost`` are about the application's other tasks.
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


class _FailingView(Proxy):
    """The task as its request sees it: acknowledged late, and failed when its process is lost."""

    acks_late = True
    reject_on_worker_lost = False


class _EarlyView(Proxy):
    """The task as its request sees it: acknowledged when it starts."""

    acks_late = False


def acknowledged_late(task: Any) -> bool:
    """Whether deliveries of ``task`` are settled by their outcome rather than by their start.

    ``False`` only for a declared ``acks_late=False``.
    """
    return not _declined(task, "acks_late")


def _declined(task: Any, option: str) -> bool:
    """Whether the declaration of ``task`` says ``False`` for ``option``, rather than a setting.

    Celery's ``bind`` fills what was left open from the settings, on the same class and after
    everything that was declared there; ``__bound__`` marks that moment in the class dict.
    """
    if getattr(task, option):
        return False
    cls = type(task)
    names = list(vars(cls))
    if option in names and vars(cls)[option] is False:
        bound = names.index("__bound__") if "__bound__" in names else len(names)
        if names.index(option) < bound:
            return True
    for base in cls.__mro__[1:]:
        if base is Task:
            break
        if vars(base).get(option) is False and "__bound__" not in vars(base):
            return True
    return False


def scheduled_view(task: Any) -> Any:
    """Return ``task`` behind a proxy that answers how its deliveries are acknowledged."""
    if not acknowledged_late(task):
        view: type[Proxy] = _EarlyView
    elif _declined(task, "reject_on_worker_lost"):
        view = _FailingView
    else:
        view = _LateView
    return view(lambda: task)
