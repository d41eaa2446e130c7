"""The task class of scheduled tasks."""

from __future__ import annotations

import inspect
import time
from typing import Any, ClassVar

from celery import Task

from tq_celery.effective import Effective, current_request, resolve, take_call
from tq_celery.inheritance import HEADER
from tq_celery.options import OPTION_NAMES, Rules, TaskOptions

__all__ = ["TQTask", "scheduled_class"]

_MISSING = object()


class TQTask(Task):
    """Base class of scheduled tasks; :meth:`tq_celery.TQ.task` uses it, and so may you.

    For tasks whose application is created later, and for class-based tasks, give the options as
    attributes::

        @shared_task(base=TQTask, tenant="account_id", cost=2.0)
        def report(account_id): ...

        class Export(TQTask):
            name, tenant, deadline = "proj.export", "account_id", 3600
            def run(self, account_id): ...

    They mean what they mean on a declaration (see :mod:`tq_celery.options`), are checked when the
    class is made, and are completed from the base class. A task that is abstract or has no ``run``
    yet is checked in its subclasses. The attributes themselves are taken away: Celery reads
    ``priority`` as its broker's.
    """

    abstract = True
    #: What this class declares, completed from its bases.
    tq_options: ClassVar[TaskOptions] = TaskOptions()
    #: The same, compiled for calls; None while there is no ``run``.
    tq_rules: ClassVar[Rules | None] = TaskOptions().rules(None)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        base: TaskOptions = super(cls, cls).tq_options
        own: dict[str, Any] = {}
        for name in OPTION_NAMES:
            value = vars(cls).get(name, _MISSING)
            if value is not _MISSING:
                own[name] = value.__func__ if isinstance(value, staticmethod) else value
                delattr(cls, name)
        declared = vars(cls).get("tq_options") or TaskOptions(**own)
        cls.tq_options = declared.over(base)
        run = inspect.getattr_static(cls, "run")
        if run is Task.run:
            cls.tq_rules = None
        elif isinstance(run, staticmethod):
            cls.tq_rules = cls.tq_options.rules(run.__func__)
        else:
            cls.tq_rules = cls.tq_options.rules(run, skip=1)

    @classmethod
    def bind(cls, app: Any) -> Any:
        """Bind to the application; its ``task_default_priority`` is a default, not a wish."""
        own = cls.priority
        bound = super().bind(app)
        cls.priority = own
        return bound

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run here and now, as under ``task_always_eager``, after the same checks as a send."""
        rules = self.tq_rules or TaskOptions().rules(None)
        call = take_call(options)
        headers = options.get("headers")
        tq = vars(self._get_app()).get("tq")
        default = tq.default if tq is not None else Effective(b"default")
        found = resolve(
            rules,
            call,
            (args or (), kwargs or {}, options),
            headers,
            default,
            request=current_request(),
        )
        options["headers"] = {**(headers or {}), HEADER: found.header(int(time.time() * 1000))}
        return super().apply(args, kwargs, **options)


def scheduled_class(base: type[Any] | None) -> type[Any]:
    """Return a scheduled form of a task base class: TQTask, or a class that joins the two."""
    if base is None or base is Task:
        return TQTask
    if issubclass(base, TQTask):
        return base
    return type(base.__name__, (TQTask, base), {"abstract": True, "__module__": base.__module__})
