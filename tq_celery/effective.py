"""Which options a send has, in the end: every source asked in the documented order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from celery._state import get_current_worker_task

from tq_celery.inheritance import HEADER, read_header
from tq_celery.options import OPTION_NAMES, Deadline, Rules, check, check_tenant

__all__ = [
    "FOUND", "Effective", "ambient_tenant", "current_request", "resolve", "take_call", "tenant",
]  # fmt: skip

#: Option of a send whose options were resolved before: that :class:`Effective`.
FOUND = "tq_found"

_ambient: ContextVar[bytes | None] = ContextVar("tq_tenant", default=None)
_NOTHING: Mapping[str, Any] = {}


@contextmanager
def tenant(value: object) -> Iterator[None]:
    """Send what names no tenant in this block, thread or coroutine for ``value``.

    None ends an outer block's effect. Raises OptionError for a tenant that is not allowed.
    """
    token = _ambient.set(check_tenant(value))
    try:
        yield
    finally:
        _ambient.reset(token)


def ambient_tenant() -> bytes | None:
    """Return the tenant of the innermost ``with tq.tenant(...)``."""
    return _ambient.get()


def current_request() -> Any:
    """Return the request of the task that runs here, or None."""
    task = get_current_worker_task()
    return task.request if task is not None else None


class Effective(NamedTuple):
    """The options of one send. ``shares_cost``: the cost was given for a whole workflow."""

    tenant: bytes
    cost: float = 1.0
    priority: int = 0
    deadline: Deadline | None = None
    shares_cost: bool = False

    def header(self, now: int) -> dict[str, Any]:
        """Return the ``tq`` header; ``now`` in ms turns a relative deadline into an absolute."""
        header: dict[str, Any] = {
            "tenant": self.tenant.decode("utf-8", "surrogateescape"),
            "priority": self.priority,
            "cost": self.cost,
        }
        if self.deadline is not None:
            at, within = self.deadline
            header["deadline"] = at if within is None else now + within
        return header


def take_call(options: dict[str, Any], names: Sequence[str] = OPTION_NAMES) -> dict[str, Any]:
    """Take our options out of a call's; returns those that are set, checked.

    Celery keeps stamps among the options: one that has the name of an option is left alone.
    """
    call: dict[str, Any] = {}
    stamps = options.get("stamped_headers") or ()
    for name in names:
        if name in options and name not in stamps:
            value = check(name, options.pop(name))
            if value is not None:
                call[name] = value
    return call


def resolve(
    rules: Rules,
    call: Mapping[str, Any],
    arguments: tuple[Sequence[Any], Mapping[str, Any], Mapping[str, Any]],
    headers: Mapping[str, Any] | None,
    default: Effective,
    *,
    request: Any = None,
    repeats: bool = False,
) -> Effective:
    """Return the options of a send: call, declaration or route, ambient, inherited, default.

    ``headers`` are those given at the call; a workflow's header in them comes before that of
    ``request``, which is the current one. With ``repeats`` the send is another run of the current
    task, and its own header counts as given at the call. Raises OptionError.
    """
    given = (headers or _NOTHING).get(HEADER)
    if repeats and given is None:
        given = request_header(request)  # a retry with headers of its own
    workflow = read_header(given)
    if repeats:
        call = {**workflow, **call}
    declared = rules.values(*arguments, given=call)
    alone = given is None and request is None and _ambient.get() is None
    if alone and not call and not declared:
        return default
    found: dict[str, Any] = {}
    if request is not None:
        found.update(read_header(request_header(request)))
        found.pop("cost", None)  # how long the parent takes says nothing about its children
    ambient = _ambient.get()
    if ambient is not None:
        found["tenant"] = ambient
    found |= {**workflow, **declared, **call}
    return Effective(
        found.get("tenant") or default.tenant,
        found.get("cost", default.cost),
        found.get("priority", default.priority),
        found.get("deadline"),
        "cost" in call or "cost" in workflow,
    )


def request_header(request: Any) -> Any:
    """Return the ``tq`` header of a request, wherever its worker put it."""
    own = vars(request)
    header = own.get(HEADER)
    return header if header is not None else (own.get("headers") or _NOTHING).get(HEADER)
