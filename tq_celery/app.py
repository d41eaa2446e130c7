"""``TQ(app)``: the one object that attaches the library to an application.

What it hooks, all of it:

=============================  ==================================================================
``app.tq``                     the :class:`TQ` itself
``app.send_task``              scheduled tasks go to the namespace, all others as before
``app._task_from_fun``         scheduled shared tasks get the application's own task class
``app.control``                revokes and purges scheduled tasks too
``app.steps["consumer"]``      the worker's step, which reads the queues the worker consumes anyway
worker's ``revoke`` commands   write to the namespace too, in this application's workers alone
``app.__reduce_ex__``          a pickled application keeps its TQ, in a spawned process for example
``celery purge``               purges scheduled tasks too, when it runs for this application
``app._get_backend``           a Redis result backend subscribes when a scheduled task's result is
                               waited for, not when the task is sent, which could take longer than
                               the call may; and no result is missed on the way
=============================  ==================================================================

Registered tasks, their classes, the broker and all else of the backend stay as they are. Nothing
connects before the first scheduled task is sent, revoked or purged.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from celery.utils.imports import symbol_by_name

from tq_celery.bulk import submit_many
from tq_celery.detour import Counts
from tq_celery.effective import Effective
from tq_celery.effective import tenant as ambient
from tq_celery.errors import TQError
from tq_celery.options import OPTION_NAMES, WAY_NAMES, Rules, TaskOptions, const
from tq_celery.publish import Publisher
from tq_celery.result_backend import adjust_backends, miss_no_result
from tq_celery.settings import Settings
from tq_celery.stopping import Stopping, hook_control
from tq_celery.store.contract import Limits
from tq_celery.store.producers import Producers
from tq_celery.task import TQTask, accept_shared, scheduled_class, take_backoff
from tq_celery.tracing.opening import open_tracing

if TYPE_CHECKING:
    from tq_celery.tracing.spans import Tracing

__all__ = ["TQ"]

#: The worker's step; workers import it, applications that only send do not.
_WORKER_STEP = "tq_celery.worker.bootstep:TQStep"


class TQ:
    """Attaches fair scheduling to a Celery application.

    ``url`` and keyword settings override ``app.conf.tq_*`` and ``TQ_*`` variables; see
    :class:`~tq_celery.settings.Settings`. Unknown or bad settings raise SettingsError: explicit
    ones here, those of the application when they are first needed. The namespace is the
    application's main name unless a setting says otherwise. Raises TQError when the application
    has a TQ already.
    """

    #: A literal on a declaration: ``tenant=tq.const("billing")``.
    const = const
    #: Base class for ``@shared_task(base=tq.Task)`` and class-based tasks.
    Task = TQTask

    def __init__(self, app: Any, url: str | None = None, **settings: Any) -> None:
        if vars(app).get("tq") is not None:
            raise TQError(f"application {app.main!r} has a TQ already; make one per application")
        if url is not None:
            settings["url"] = url
        Settings.load(environ={}, **settings)
        self.app = app
        #: What was given here in code; it wins over every other source.
        self.explicit = settings
        self._declared: set[str] = set()
        #: What this process sent to the broker instead of the scheduler.
        self.counts = Counts()
        self.publisher = Publisher(self, app.send_task)
        app.tq = self
        app.send_task = self.publisher.send_task
        app._task_from_fun = accept_shared(app._task_from_fun, lambda: _own_class(app))
        hook_control(app)
        adjust_backends(app, miss_no_result)
        app.steps["consumer"].add(_WORKER_STEP)
        reduced = app.__reduce_ex__
        app.__reduce_ex__ = lambda protocol: (_restore_app, (reduced(protocol), settings))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _restore, (self.app, self.explicit)

    def task(
        self,
        *args: Any,
        tenant: Any = None,
        cost: Any = None,
        priority: Any = None,
        deadline: Any = None,
        fraction: float | None = None,
        on_unavailable: str | None = None,
        base: type[Any] | None = None,
        **options: Any,
    ) -> Any:
        """Declare a scheduled task; takes the options of ``app.task``, with or without brackets.

        See :mod:`tq_celery.options` for ``tenant``, ``cost``, ``priority`` and ``deadline``;
        ``fraction`` and ``on_unavailable`` replace the settings of these names for this task.
        Raises OptionError for a literal out of range and a string that names no parameter.
        """
        declared = TaskOptions(tenant, cost, priority, deadline, fraction, on_unavailable)
        joined = scheduled_class(base or _own_class(self.app))
        options = take_backoff(options, joined)

        def declare(function: Callable[..., Any]) -> Any:
            declared.rules(function, skip=1 if options.get("bind") else 0)
            name = options.get("name")
            self._declared.add(
                name or self.app.gen_task_name(function.__name__, function.__module__)
            )
            return self.app.task(base=joined, tq_options=declared, **options)(function)

        if len(args) == 1 and callable(args[0]):
            return declare(args[0])
        if args:
            raise TypeError("@tq.task() takes options as keyword arguments only")
        return declare

    def submit_many(self, calls: Iterable[Any]) -> list[str]:
        """Submit many calls in batches of at most 500 and return their ids, in order.

        ``calls`` is any iterable, also a generator or a group, of signatures or of tuples
        ``(task, args, kwargs, options)``, of which only the task is required. Each call is checked
        and submitted by itself: one that is refused does not hold back the others, and at the end
        :class:`~tq_celery.errors.BulkError` names every one of them and the ids of the rest.
        """
        return submit_many(self, calls)

    def tenant(self, value: object) -> AbstractContextManager[None]:
        """Return a block in which sends that name no tenant are for ``value``."""
        return ambient(value)

    @cached_property
    def settings(self) -> Settings:
        """The settings, read from all sources when first needed."""
        return Settings.load(
            self.app.conf, defaults={"namespace": self.app.main or "celery"}, **self.explicit
        )

    @cached_property
    def tracing(self) -> Tracing | None:
        """What writes the spans of sends, None when tracing is off; may raise SettingsError."""
        return open_tracing(self.settings)

    @cached_property
    def producers(self) -> Producers:
        """The namespace as a producer sees it, in this process; also ``tq.store``."""
        return Producers(self.settings)

    @property
    def store(self) -> Producers:
        """The producers' side of the namespace, good before and after a fork."""
        return self.producers

    @cached_property
    def stopping(self) -> Stopping:
        """Revokes and purges scheduled tasks; ``app.control`` does so through it."""
        return Stopping(self)

    @cached_property
    def limits(self) -> Limits:
        """The back-pressure limits that submissions are held to."""
        own = self.settings
        return Limits(
            own.max_pending, own.max_pending_queue, own.max_pending_tenant, own.max_payload
        )

    @cached_property
    def default(self) -> Effective:
        """The options of a task that has none."""
        priority = self.app.conf.task_default_priority
        known = type(priority) is int and 0 <= priority <= 255
        return Effective(self.settings.default_tenant.encode(), priority=priority if known else 0)

    @cached_property
    def routes(self) -> Routes:
        """The setting ``tq_routes``, compiled."""
        return Routes(self.settings.routes)

    def ensure_defined(self, name: str) -> None:
        """Evaluate the application's tasks if ``name`` is one of ours that still waits for it.

        Celery sends by name without that; a scheduled task would then go to the broker.
        """
        if not self.app.finalized and name in self._declared and self.app.autofinalize:
            self.app.finalize(auto=True)


class Routes:
    """Which names are scheduled by a pattern; the first that matches counts.

    On a route a string names a parameter, as on a declaration; ``tq.const("x")``, or in files
    ``{"const": "x"}``, is a literal.
    """

    def __init__(self, patterns: Mapping[str, Mapping[str, Any]]) -> None:
        self._routes = [
            (
                pattern,
                TaskOptions(**{n: _literal(options.get(n)) for n in (*OPTION_NAMES, *WAY_NAMES)}),
            )
            for pattern, options in patterns.items()
        ]
        self._found: dict[str, Rules | None] = {}

    def rules_of(self, name: str, task: Any = None) -> Rules | None:
        """Return the rules of a task, None for one that is not scheduled.

        ``task`` is the task itself where it is defined here. Each option that its declaration
        leaves open is taken from the first route that matches its name. Raises OptionError when a
        route names no parameter of the task.
        """
        declared: Rules | None = getattr(task, "tq_rules", None)
        if not self._routes:
            return declared
        try:
            return self._found[name]
        except KeyError:
            routed = next((o for p, o in self._routes if fnmatch.fnmatchcase(name, p)), None)
            rules = declared
            if routed is not None:
                options = routed if declared is None else task.tq_options.over(routed)
                rules = options.rules(getattr(task, "run", None))
            return self._found.setdefault(name, rules)


def _own_class(app: Any) -> type[Any]:
    """Return the class that the application gives its tasks: ``app.Task``, or ``task_cls``."""
    own: type[Any] = vars(app).get("Task") or symbol_by_name(app.task_cls)
    return own


def _literal(value: Any) -> Any:
    return (
        const(value["const"]) if isinstance(value, Mapping) and set(value) == {"const"} else value
    )


def _restore(app: Any, settings: dict[str, Any]) -> TQ:
    attached: TQ | None = vars(app).get("tq")
    return attached if attached is not None else TQ(app, **settings)


def _restore_app(reduced: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    make, args = reduced[:2]
    app = make(*args)
    _restore(app, settings)
    return app
