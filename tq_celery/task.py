"""The task class of scheduled tasks."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ClassVar

from celery import Task
from celery.exceptions import Reject

from tq_celery.backoff import (
    BACKOFF_HEADER,
    DEFAULT_BASE,
    DEFAULT_CAP,
    Backoff,
    is_decorrelated,
    read_previous,
)
from tq_celery.commit import OnCommit, options_of
from tq_celery.inheritance import HEADER, KEY_HEADER
from tq_celery.options import OPTION_NAMES, WAY_NAMES, Rules, TaskOptions
from tq_celery.replacement import give_ids

__all__ = [
    "TQTask", "UnsentRetry", "accept_shared", "give_ids_in_replace", "scheduled_class",
    "take_backoff",
]  # fmt: skip

_MISSING = object()


class UnsentRetry(Reject):
    """The next try could not be sent; ``reason`` is why.

    Celery raises a bare Reject, which says the same as a task that rejects itself on purpose.
    """


class TQTask(OnCommit, Task):
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

    ``retry_backoff="decorrelated"`` spreads retries with no common rhythm, those of
    ``autoretry_for`` and every ``self.retry()`` that names no time: see :mod:`tq_celery.backoff`.
    The shortest sleep is ``retry_backoff_base`` (1.0 s), the longest ``retry_backoff_max`` (600 s).
    """

    abstract = True
    #: What this class declares, completed from its bases.
    tq_options: ClassVar[TaskOptions] = TaskOptions()
    #: The same, compiled for calls; None while there is no ``run``.
    tq_rules: ClassVar[Rules | None] = TaskOptions().rules(None)
    #: Decorrelated back-off of this class, None for Celery's own.
    tq_backoff: ClassVar[Backoff | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        base: TaskOptions = super(cls, cls).tq_options
        own: dict[str, Any] = {}
        for name in (*OPTION_NAMES, *WAY_NAMES):
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
        cls._settle_backoff()

    @classmethod
    def _settle_backoff(cls) -> None:
        """Read the back-off options, and take the word away: Celery would read a number."""
        own = vars(cls)
        word = is_decorrelated(own.get("retry_backoff", False))
        if word or (own.get("tq_backoff") is not None and not own.get("retry_backoff")):
            cls.retry_backoff = False
            cls.tq_backoff = _backoff_of({}, cls)
        elif "retry_backoff" in own:
            cls.tq_backoff = None  # this class goes back to Celery's
        elif cls.tq_backoff is not None:
            cls.tq_backoff = _backoff_of({}, cls)

    @classmethod
    def bind(cls, app: Any) -> Any:
        """Bind to the application; its ``task_default_priority`` is a default, not a wish."""
        own = cls.priority
        bound = super().bind(app)
        cls.priority = own
        cls._settle_backoff()  # ``task_annotations`` may have changed it
        return bound

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: Any = None,
        throw: bool = True,
        eta: Any = None,
        countdown: Any = None,
        max_retries: Any = None,
        **options: Any,
    ) -> Any:
        """Retry as :meth:`celery.Task.retry` does, in one step with the end of this try.

        Without ``countdown`` and ``eta`` a task with ``retry_backoff="decorrelated"`` waits for its
        next sleep, which travels with it.
        """
        backoff = self.tq_backoff
        if backoff is not None and countdown is None and not eta:
            headers = options.get("headers") or self.request.headers or {}
            countdown = backoff.next(
                read_previous((self.request.headers or {}).get(BACKOFF_HEADER))
            )
            options["headers"] = {**headers, BACKOFF_HEADER: countdown}
        try:
            return super().retry(args, kwargs, exc, throw, eta, countdown, max_retries, **options)
        except Reject as reject:
            raise UnsentRetry(reject.reason) from reject.reason

    def replace(self, sig: Any) -> Any:
        """Replace as :meth:`celery.Task.replace` does, harmlessly when this task is run again.

        The parts of ``sig`` get ids that a second run of this task gives them too; see
        :mod:`tq_celery.replacement`. So each of them is accepted once.
        """
        key = vars(self.request).get(KEY_HEADER)
        if key is not None:
            give_ids(sig, key)
        return super().replace(sig)

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run here and now, as under ``task_always_eager``, after the same checks as a send."""
        found = options_of(self, args, kwargs, options)
        header = found.header(int(time.time() * 1000))
        options["headers"] = {**(options.get("headers") or {}), HEADER: header}
        return super().apply(args, kwargs, **options)


def give_ids_in_replace(task: Any) -> None:
    """Let a task that only a route schedules replace itself as :meth:`TQTask.replace` does."""
    if "replace" in vars(task):
        return
    theirs = task.replace

    @wraps(theirs)
    def replace(sig: Any) -> Any:
        key = vars(task.request).get(KEY_HEADER)
        if key is not None:
            give_ids(sig, key)
        return theirs(sig)

    task.replace = replace


def scheduled_class(base: type[Any] | None) -> type[Any]:
    """Return a scheduled form of a task base class: TQTask, or a class that joins the two.

    What the base class overrides comes first, and its ``super()`` calls reach ours.
    """
    if base is None or base is Task:
        return TQTask
    if issubclass(base, TQTask):
        return base
    joined = {"abstract": True, "__module__": base.__module__}
    ours: type[Any] = TQTask
    for each in base.__mro__:
        if each.__module__ == "celery.contrib.django.task":
            # Its two methods give way to ours, and nothing else of the base class does.
            ours = type("DjangoTQTask", (TQTask, each), joined)
            break
    return ours if issubclass(ours, base) else type(base.__name__, (base, ours), joined)


def take_backoff(options: Mapping[str, Any], base: type[Any]) -> dict[str, Any]:
    """Return the options of a declaration as Celery understands them.

    Celery turns ``retry_backoff`` into a float for every task, so our word becomes an attribute of
    our own. Raises OptionError for a bad back-off.
    """
    taken = dict(options)
    if is_decorrelated(taken.get("retry_backoff", False)):
        taken |= {"retry_backoff": False, "tq_backoff": _backoff_of(taken, base)}
    return taken


def accept_shared(make: Callable[..., Any], default_base: Callable[[], type[Any]]) -> Any:
    """Return the application's task maker, which then knows scheduled tasks.

    ``@shared_task`` hands its options to the application unseen by us. With ``base=TQTask`` the
    task is a scheduled form of the application's own task class, which may be Django's, and
    ``retry_backoff`` may be a word.
    """

    @wraps(make)
    def maker(fun: Any, *args: Any, **options: Any) -> Any:
        if options.get("base") is TQTask:
            options["base"] = scheduled_class(default_base())
        if isinstance(options.get("retry_backoff"), str):
            base = options.get("base") or default_base()
            if isinstance(base, type) and issubclass(base, TQTask):
                options = take_backoff(options, base)
        return make(fun, *args, **options)

    return maker


def _backoff_of(options: Mapping[str, Any], base: type[Any]) -> Backoff:
    def find(name: str, default: Any) -> Any:
        return options.get(name, getattr(base, name, default))

    return Backoff.of(
        find("retry_backoff_base", DEFAULT_BASE),
        find("retry_backoff_max", DEFAULT_CAP),
        find("retry_jitter", True),
    )
