"""Scheduling options of one task: ``tenant``, ``cost``, ``priority`` and ``deadline``.

============  =================================  ===================================================
option        value at a call                    meaning
============  =================================  ===================================================
``tenant``    text, bytes, int or UUID,          who the work is for; empty or None = unset
              at most 256 bytes
``cost``      number, 1e-6 to 1e9                service expected, in seconds of worker time unless
                                                 the application says otherwise; unset = 1.0
``priority``  integer, 0 to 255                  higher is more urgent; unset = 0
``deadline``  seconds from now (number or        when the work is late; unset = never
              timedelta) or aware datetime
============  =================================  ===================================================

On a *declaration* a string names a parameter of the task, whose value is then read at each call;
:class:`const` makes a literal; a callable gets ``(args, kwargs, options)`` and returns the value;
numbers, timedeltas and datetimes are literals.

Two more are literals of a declaration or route, and no options of a call: ``fraction`` (0 to 1) and
``on_unavailable`` (``raise`` or ``broker``), which :mod:`tq_celery.detour` explains.

Each option is taken from the first source that has it: the call; the declaration on the task; its
route in ``tq_routes``, and for the priority Celery's ``task_routes``; the workflow it was put into;
the ambient tenant; the task it is sent from (not its cost); the default.
A value out of range raises :class:`~tq_celery.errors.OptionError` at the call.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from numbers import Real
from typing import Any, NamedTuple
from uuid import UUID

from tq_celery.errors import OptionError

__all__ = [
    "MAX_PRIORITY",
    "ON_UNAVAILABLE",
    "OPTION_NAMES",
    "WAY_NAMES",
    "Deadline",
    "Rules",
    "TaskOptions",
    "check",
    "check_tenant",
    "const",
]

#: The options, in the order in which messages list them.
OPTION_NAMES = ("tenant", "cost", "priority", "deadline")
#: What a declaration or route also has: which way the task's calls take.
WAY_NAMES = ("fraction", "on_unavailable")
#: What a call may do when the scheduler's server certainly did not get it.
ON_UNAVAILABLE = ("raise", "broker")
#: Bytes in the longest tenant name.
MAX_TENANT = 256
MIN_COST, MAX_COST = 1e-6, 1e9
MAX_PRIORITY = 255
#: Seconds from now of the latest relative deadline: thirty years.
MAX_DEADLINE = 1e9

_TENANT_RANGE = "text, bytes, an integer or a UUID of at most 256 bytes"
_COST_RANGE = "a number from 1e-6 to 1e9"
_PRIORITY_RANGE = "an integer from 0 to 255"
_DEADLINE_RANGE = (
    "seconds from now (a number above 0, at most 1e9), a timedelta above 0, "
    "or a datetime after 1970 with a time zone"
)


class Deadline(NamedTuple):
    """One of two: ``at``, absolute ms; ``within``, ms from the moment the store takes the task."""

    at: int | None
    within: int | None


class const(NamedTuple):  # noqa: N801 - read as a word at the declaration: tenant=tq.const("x")
    """A literal on a declaration, where a bare string would name a parameter."""

    value: Any


def check_tenant(value: object) -> bytes | None:
    """Return the tenant's bytes; None when ``value`` is None or empty."""
    if value is None:
        return None
    if isinstance(value, bytes):
        raw = value
    elif isinstance(value, str | UUID) or (isinstance(value, int) and value is not True):
        if value is False:
            raise OptionError("tenant", value, _TENANT_RANGE)
        try:
            raw = str(value).encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise OptionError("tenant", value, _TENANT_RANGE) from None
    else:
        raise OptionError("tenant", value, _TENANT_RANGE)
    if len(raw) > MAX_TENANT:
        raise OptionError("tenant", raw[:32] + b"...", _TENANT_RANGE)
    return raw or None


def check_cost(value: object) -> float:
    """Return the cost as a float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise OptionError("cost", value, _COST_RANGE)
    cost = float(value)
    if not MIN_COST <= cost <= MAX_COST:  # also false for nan
        raise OptionError("cost", value, _COST_RANGE)
    return cost


def check_priority(value: object) -> int:
    """Return the priority as an int."""
    if not isinstance(value, bool):
        try:
            priority = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
        else:
            if 0 <= priority <= MAX_PRIORITY:
                return priority
    raise OptionError("priority", value, _PRIORITY_RANGE)


def check_deadline(value: object) -> Deadline:
    """Return the deadline, absolute or relative as it was given."""
    if isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise OptionError("deadline", value, _DEADLINE_RANGE)
        at = math.ceil(value.timestamp() * 1000)
        if at <= 0:
            raise OptionError("deadline", value, _DEADLINE_RANGE)
        return Deadline(at, None)
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = float(value)
    else:
        raise OptionError("deadline", value, _DEADLINE_RANGE)
    if not 0 < seconds <= MAX_DEADLINE:
        raise OptionError("deadline", value, _DEADLINE_RANGE)
    return Deadline(None, math.ceil(seconds * 1000))


def check_fraction(value: object) -> float:
    """Return the share of calls that goes through the scheduler."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise OptionError("fraction", value, "a number from 0 to 1")
    return float(value)


def check_on_unavailable(value: object) -> str:
    """Return the word."""
    if value not in ON_UNAVAILABLE:
        raise OptionError("on_unavailable", value, "one of " + ", ".join(ON_UNAVAILABLE))
    return str(value)


_CHECKS: dict[str, Callable[[object], Any]] = {
    "tenant": check_tenant,
    "cost": check_cost,
    "priority": check_priority,
    "deadline": check_deadline,
    "fraction": check_fraction,
    "on_unavailable": check_on_unavailable,
}


def check(name: str, value: object) -> Any:
    """Return the checked form of a value given at a call; None means unset."""
    return None if value is None else _CHECKS[name](value)


#: How a declared option gets its value at a call.
Rule = Callable[[Sequence[Any], Mapping[str, Any], Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Rules:
    """A declaration ready for calls: ``fixed`` checked values, and ``rules`` to ask each time.

    ``fraction`` and ``on_unavailable`` are None where the settings decide.
    """

    fixed: Mapping[str, Any]
    rules: Mapping[str, Rule]
    fraction: float | None = None
    on_unavailable: str | None = None

    def values(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
        given: Container[str] = (),
    ) -> Mapping[str, Any]:
        """Return the checked values of this call; raises OptionError out of range.

        Rules for options that are ``given`` at the call are not asked.
        """
        if not self.rules:
            return self.fixed
        values = dict(self.fixed)
        for name, rule in self.rules.items():
            if name in given:
                continue
            value = check(name, rule(args, kwargs, options))
            if value is not None:
                values[name] = value
        return values

    def literals(self) -> Rules:
        """Return these rules without those that read a call's arguments."""
        return replace(self, rules={})


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What a task declares. Literals out of range raise OptionError here, not at a call."""

    tenant: str | const | Callable[..., Any] | None = None
    cost: float | str | const | Callable[..., Any] | None = None
    priority: int | str | const | Callable[..., Any] | None = None
    deadline: float | timedelta | datetime | str | const | Callable[..., Any] | None = None
    fraction: float | None = None
    on_unavailable: str | None = None

    def __post_init__(self) -> None:
        for name in WAY_NAMES:
            check(name, getattr(self, name))
        for name in OPTION_NAMES:
            declared = getattr(self, name)
            if isinstance(declared, const):
                check(name, declared.value)
            elif name == "tenant" and not (
                declared is None or isinstance(declared, str) or callable(declared)
            ):
                raise OptionError(
                    name, declared, 'the name of a parameter, tq.const("...") or a callable'
                )
            elif not (isinstance(declared, str) or callable(declared)):
                check(name, declared)

    def over(self, base: TaskOptions | None) -> TaskOptions:
        """Return these options, completed from those of a base class."""
        if base is None:
            return self
        names = (*OPTION_NAMES, *WAY_NAMES)
        return TaskOptions(*(_first(getattr(self, n), getattr(base, n)) for n in names))

    def rules(self, function: Callable[..., Any] | None, skip: int = 0) -> Rules:
        """Compile for calls of ``function``, leaving out its first ``skip`` parameters (self).

        Raises OptionError when a string names no parameter of it. Without a function, as in a
        route to a task that is not defined here, strings name keyword arguments.
        """
        fixed: dict[str, Any] = {}
        rules: dict[str, Rule] = {}
        for name in OPTION_NAMES:
            declared = getattr(self, name)
            if isinstance(declared, str):
                rules[name] = _parameter(name, declared, function, skip)
            elif callable(declared):
                rules[name] = declared
            else:
                literal = declared.value if isinstance(declared, const) else declared
                value = check(name, literal)
                if value is not None:
                    fixed[name] = value
        return Rules(fixed, rules, self.fraction, self.on_unavailable)


def _first(value: Any, other: Any) -> Any:
    return other if value is None else value


def _parameter(option: str, name: str, function: Callable[..., Any] | None, skip: int) -> Rule:
    """Return a rule that reads the parameter ``name`` from a call of ``function``."""
    index, default = None, None
    if function is not None:
        parameters = list(inspect.signature(function).parameters.values())[skip:]
        names = [p.name for p in parameters]
        if name in names:
            found = parameters[names.index(name)]
            if found.kind in (found.VAR_POSITIONAL, found.VAR_KEYWORD):
                raise OptionError(option, name, "a parameter that holds one value")
            if found.kind is not found.KEYWORD_ONLY:
                index = names.index(name)
            default = None if found.default is found.empty else found.default
        elif not any(p.kind is p.VAR_KEYWORD for p in parameters):
            raise OptionError(
                option,
                name,
                f"the name of a parameter of {getattr(function, '__name__', function)}"
                f" ({', '.join(names) or 'it has none'}), or tq.const(...) for a literal",
            )

    def rule(args: Sequence[Any], kwargs: Mapping[str, Any], _: Mapping[str, Any]) -> Any:
        if name in kwargs:
            return kwargs[name]
        if index is not None and index < len(args):
            return args[index]
        return default

    return rule
