"""The send hook: what ``Celery.send_task`` does for scheduled tasks, and for all others.

A scheduled send is still Celery's own: its ``send_task`` routes, builds the message, fires both
publish signals and the ``task-sent`` event. We give it a producer whose ``publish`` submits the
message to the namespace instead of a broker. Before that, while they are still separate, the
countdown or ETA is taken out (it becomes a delay or due time on the store's clock) and our options
are resolved and checked.

Any other send is passed on as it came. Only when it happens inside a scheduled task or workflow
does its message get one more header, ``tq``.
"""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from celery import Task
from celery.signals import before_task_publish
from celery.utils import uuid
from celery.utils.nodenames import anon_nodename
from celery.utils.time import maybe_iso8601

from tq_celery.detour import broker_priority, is_scheduled
from tq_celery.effective import (
    FOUND,
    Effective,
    current_request,
    resolve,
    take_call,
)
from tq_celery.errors import UnsupportedTaskError
from tq_celery.inheritance import (
    EMBEDDED,
    HEADER,
    KEY_HEADER,
    TOKEN_HEADER,
    spread,
    with_header,
    without_cost,
    without_deadline,
)
from tq_celery.options import MAX_PRIORITY, Rules
from tq_celery.ordinary import OrdinarySender, release_unlocks
from tq_celery.queues import QueueNames
from tq_celery.states import Outcome
from tq_celery.store.contract import Token
from tq_celery.store.record import TaskKey
from tq_celery.submit import EventForwarder, SubmitProducer

if TYPE_CHECKING:
    from tq_celery.app import TQ

__all__ = ["Publisher"]

#: Celery's tasks that run other tasks in a loop: they are scheduled when those are.
_LOOPS = frozenset({"celery.map", "celery.starmap"})
#: Celery's task that ends a replacement by a group: in a scheduled workflow it is scheduled, since
#: an ordinary task is lost with its worker, and with it all that follows.
_COLLECTS = "celery.accumulate"
#: Longest countdown in seconds, about 300 years: a due time must stay an exact score.
_LONGEST_COUNTDOWN = 1e10


class Publisher:
    """Sends the tasks of one application; safe among threads, greenlets and after a fork."""

    def __init__(self, tq: TQ, original: Callable[..., Any]) -> None:
        self.tq = tq
        self.app = tq.app
        self._original = original
        self._ordinary = OrdinarySender(tq, original)
        self.queues = QueueNames(tq.app)
        self._events = EventForwarder(tq.app)
        self._origin = (0, "")
        self._protocol_checked = False

    def send_task(
        self,
        name: str,
        args: Any = None,
        kwargs: Any = None,
        countdown: Any = None,
        eta: Any = None,
        task_id: str | None = None,
        producer: Any = None,
        connection: Any = None,
        *rest: Any,
        **options: Any,
    ) -> Any:
        """Send a task; stands in for :meth:`celery.Celery.send_task`, whose arguments it takes.

        For scheduled tasks raises OptionError for an option out of range, SubmitError when the
        namespace refuses the task, and kombu's OperationalError when the server did not answer
        within ``tq_publish_timeout`` or refuses everything. See :mod:`tq_celery.detour` for what
        goes to the broker instead.
        """
        if rest:
            names = list(inspect.signature(self._original).parameters)[8:]
            options.update(zip(names, rest, strict=False))
        rules = self._rules(name, options, kwargs)
        request = current_request()
        parent, outcome = self._parent(request, task_id, options)
        if rules is None and (parent is None or outcome is not Outcome.RETRIED):
            return self._ordinary.send(
                request, name, args, kwargs, countdown, eta, task_id, producer, connection, options
            )
        repeats = parent is not None and outcome is Outcome.RETRIED
        eta = self.aware(eta)
        if options.get("expires"):
            options["expires"] = self.aware(options["expires"])
        headers = options.get("headers")
        if parent is None:
            _forget_broker_priority(request, task_id, options)
        found, call = options.pop(FOUND, None), take_call(options)
        if found is not None:
            found = found._replace(**call)
        else:
            found = resolve(
                self.with_route(rules or Rules({}, {}), call, name, args, kwargs, options),
                call,
                (args or (), kwargs or {}, options),
                headers,
                self.tq.default,
                request=request,
                repeats=repeats,
            )
        header = found.header(int(time.time() * 1000) + self.tq.producers.clock_offset)
        release_unlocks(header, call.get("deadline"))
        if options.get("chord"):
            options["chord"] = without_deadline(options["chord"], call.get("deadline"))
        ranked = self._ranked(found, call, rules)
        share = self.fraction(rules)
        if parent is None and share < 1.0:
            task_id = task_id or uuid()
            if not is_scheduled(task_id, share):
                self._send_to_broker(found, header, ranked, name, args, kwargs, options)
                self.tq.counts.add_fraction()
                return self._original(
                    name, args, kwargs, countdown, eta, task_id, producer, connection, **options
                )
        self._check_protocol()
        self._check_strategy(name)
        submit = SubmitProducer(self, found, producer)
        # A retry or replacement also ends its parent, which only the store can do.
        submit.detours = parent is None and self.on_unavailable(rules) == "broker"
        submit.ranked = ranked
        submit.parent, submit.outcome = parent, outcome
        submit.delay, submit.due = self.when(countdown, eta)
        submit.generation = _generation(request) if parent is not None else 0
        retry = options.get("retry")
        submit.once = not (self._retries if retry is None else retry)
        # A send of something frozen earlier (a chain's next task, a chord's body, a retry) may
        # happen twice when its sender is run again; then the first acceptance stands.
        submit.first_stands = request is not None and (
            bool(options.get("reply_to")) or bool(options.get("retries"))
        )
        options["headers"] = with_header(headers, header)
        if "priority" not in (options.get("stamped_headers") or ()):
            options["priority"] = found.priority
        # Retrying is ours: Celery's way needs a broker connection.
        options["retry"] = False
        for each in EMBEDDED:
            if options.get(each):
                submit.embedded = {each: options[each] for each in EMBEDDED if options.get(each)}
                spread(options, header if found.shares_cost else without_cost(header))
                break
        # Used when the application sends ``task-sent`` events.
        options.setdefault("event_dispatcher", self._events)
        if not before_task_publish.receivers:
            self._spare_reprs(args, kwargs, options)
        try:
            if self.tq.tracing is not None:
                send = partial(self._original, name, args, kwargs, None, None, task_id, submit)
                return self.tq.tracing.submit(send, name, task_id, request, found.tenant, options)
            return self._original(name, args, kwargs, None, None, task_id, submit, None, **options)
        finally:
            submit.release()

    @cached_property
    def _retries(self) -> bool:
        """The setting ``task_publish_retry``; a look into Celery's settings takes microseconds."""
        return bool(self.app.conf.task_publish_retry)

    @property
    def _router(self) -> Any:
        """The application's router, without the locks that Celery takes for two attributes."""
        amqp = vars(self.app).get("amqp") or self.app.amqp
        return vars(amqp).get("router") or amqp.router

    def _spare_reprs(self, args: Any, kwargs: Any, options: dict[str, Any]) -> None:
        """Give Celery what it would work out at length: half the time it takes for a message.

        Receivers of the signal would see these among the message's properties.
        """
        if not args:
            options.setdefault("argsrepr", "()")
        if not kwargs:
            options.setdefault("kwargsrepr", "{}")
        pid = os.getpid()
        if self._origin[0] != pid:
            self._origin = (pid, anon_nodename())
        options.setdefault("origin", self._origin[1])

    # --- the broker's way ------------------------------------------------------------------------

    def fraction(self, rules: Rules | None) -> float:
        """Return the share of a task's calls that goes through the scheduler."""
        own = rules.fraction if rules is not None else None
        return self.tq.settings.fraction if own is None else own

    def on_unavailable(self, rules: Rules | None) -> str:
        """Return what a call of a task does when the scheduler's server did not get it."""
        own = rules.on_unavailable if rules is not None else None
        return own or self.tq.settings.on_unavailable

    def _ranked(self, found: Effective, call: Mapping[str, Any], rules: Rules | None) -> bool:
        """Tell whether somebody gave the send a priority; else the broker's own default counts."""
        if "priority" in call or found.priority != self.tq.default.priority:
            return True
        return rules is not None and ("priority" in rules.fixed or "priority" in rules.rules)

    def _send_to_broker(
        self,
        found: Effective,
        header: dict[str, Any],
        ranked: bool,
        name: str,
        args: Any,
        kwargs: Any,
        options: dict[str, Any],
    ) -> None:
        """Turn the options of a send of ours into those of an ordinary one."""
        options["headers"] = with_header(options.get("headers"), header)
        spread(options, header if found.shares_cost else without_cost(header))
        if ranked and "priority" not in (options.get("stamped_headers") or ()):
            router = options.get("router") or self.app.amqp.router
            asked = {**options}
            task = asked.pop("task_type", None)
            routed = router.route(asked, asked.pop("route_name", None) or name, args, kwargs, task)
            options["priority"] = broker_priority(self.app, routed.get("queue"), found.priority)

    # --- what is scheduled -----------------------------------------------------------------------

    def _rules(self, name: str, options: Mapping[str, Any], kwargs: Any) -> Rules | None:
        """Return the rules of a scheduled task, or None."""
        task = options.get("task_type")
        if task is None:
            self.tq.ensure_defined(name)
            task = self.app._tasks.get(name)
        rules = self.tq.routes.rules_of(name, task)
        if rules is None and name in _LOOPS:
            looped = options.get("route_name")
            if looped is None and kwargs and isinstance(kwargs.get("task"), Mapping):
                looped = kwargs["task"].get("task")  # in a workflow Celery forgets the route's name
            inner = self._rules(looped, {}, None) if isinstance(looped, str) else None
            return inner.literals() if inner is not None else None
        if rules is None and name == _COLLECTS and HEADER in (options.get("headers") or ()):
            return Rules({}, {})
        return rules

    def with_route(
        self,
        rules: Rules,
        call: Mapping[str, Any],
        name: str,
        args: Any,
        kwargs: Any,
        options: dict[str, Any],
    ) -> Rules:
        """Return the rules with the priority that Celery's ``task_routes`` give, where none has."""
        router = options.get("router") or self._router
        if not router.routes or any(
            "priority" in each for each in (call, rules.fixed, rules.rules)
        ):
            return rules
        name = options.get("route_name") or name
        route = router.lookup_route(name, args, kwargs, {**options}, options.get("task_type"))
        priority = route.get("priority") if isinstance(route, Mapping) else None
        if type(priority) is not int or not 0 <= priority <= MAX_PRIORITY:
            return rules
        return replace(rules, fixed={**rules.fixed, "priority": priority})

    def _parent(
        self, request: Any, task_id: str | None, options: Mapping[str, Any]
    ) -> tuple[Token | None, Outcome]:
        """Return the delivery that this send replaces, if it is a retry or a replacement."""
        text = vars(request).get(TOKEN_HEADER) if request is not None else None
        if text is None:
            return None, Outcome.RETRIED
        nesting = options.get("replaced_task_nesting") or 0
        if task_id == request.id and (options.get("retries") or 0) == request.retries + 1:
            outcome = Outcome.RETRIED
        elif nesting == (request.replaced_task_nesting or 0) + 1 and (
            task_id == request.id or options.get("group_id") in (None, request.group)
        ):
            # The whole replacement hangs on this one message; with a group it hangs on many.
            outcome = Outcome.REPLACED
        else:
            return None, Outcome.RETRIED
        try:
            return Token.decode(text), outcome
        except ValueError:
            return None, outcome

    # --- details of a scheduled send -------------------------------------------------------------

    def _check_protocol(self) -> None:
        if not self._protocol_checked:
            amqp = self.app.amqp
            if amqp.create_task_message == amqp.task_protocols[1]:
                raise UnsupportedTaskError(
                    "task_protocol = 1 has no headers; scheduled tasks need task_protocol = 2"
                )
            self._protocol_checked = True

    def _check_strategy(self, name: str) -> None:
        # The worker would run such a task one call at a time, with arguments it does not expect.
        task = self.app._tasks.get(name)
        if task is not None and task.Strategy != Task.Strategy:
            raise UnsupportedTaskError(
                f"{name} has a Strategy of its own ({task.Strategy}); a scheduled task "
                "cannot have one: take @app.task, and fraction 0 on a route that matches it"
            )

    def when(self, countdown: Any, eta: Any) -> tuple[int | None, int | None]:
        """Return the delay in ms, or the due time in ms; like Celery, a countdown wins."""
        if countdown:
            seconds = float(countdown)
            if not -_LONGEST_COUNTDOWN <= seconds <= _LONGEST_COUNTDOWN:
                raise ValueError(f"countdown is out of range: {countdown!r}")
            return (math.ceil(seconds * 1000) if seconds > 0 else None), None
        if not eta:
            return None, None
        due: datetime = self.aware(maybe_iso8601(eta))
        return None, max(0, math.ceil(due.timestamp() * 1000))

    def aware(self, moment: Any) -> Any:
        """Return a naive datetime, or ISO text of one, in the application's time zone.

        Celery's worker would read it as UTC, whatever zone the application has. Anything else is
        returned as it is.
        """
        found = maybe_iso8601(moment) if isinstance(moment, str) else moment
        if isinstance(found, datetime) and found.tzinfo is None:
            return found.replace(tzinfo=self.app.timezone)
        return moment


def _forget_broker_priority(request: Any, task_id: str | None, options: dict[str, Any]) -> None:
    """Take away the priority that a retry copied from its broker message: that is no one of ours.

    The task's own priority is in its header.
    """
    if request is None or request.id != task_id or "priority" not in options:
        return
    if options["priority"] == (request.delivery_info or {}).get("priority"):
        del options["priority"]


def _generation(request: Any) -> int:
    """Return the requeue generation of the current task; a retry belongs to the same one."""
    try:
        return TaskKey.decode(vars(request)[KEY_HEADER].encode()).generation
    except (KeyError, ValueError, AttributeError):
        return 0
