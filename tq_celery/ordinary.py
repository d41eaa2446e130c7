"""Sends of tasks that are not scheduled: passed on as they came, with at most one more header.

The header, ``tq``, is added only inside a scheduled task or workflow. One task of Celery's is held
back for a moment: ``celery.chord_unlock``, which sends a chord's body where the result backend does
not join chords itself, is published before the first task of the header is. It goes out right
before that task, with the body inheriting from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from celery.app import base

from tq_celery.effective import Effective, ambient_tenant, request_header, take_call
from tq_celery.inheritance import (
    EMBEDDED,
    HEADER,
    body_header,
    embed,
    spread,
    with_header,
    without_cost,
    without_deadline,
)
from tq_celery.options import Deadline, check

if TYPE_CHECKING:
    from tq_celery.app import TQ

__all__ = ["OrdinarySender", "release_unlocks"]

#: Options of ours that mean nothing to a broker; ``priority`` means something to both.
_OURS = ("tenant", "cost", "deadline")
_UNLOCK = "celery.chord_unlock"

#: Unlocks that wait for the first task of their chord's header, in this thread or coroutine.
_held: ContextVar[tuple[Callable[[Mapping[str, Any], Deadline | None], None], ...]] = ContextVar(
    "tq_unlocks", default=()
)


def release_unlocks(header: Mapping[str, Any], deadline: Deadline | None = None) -> None:
    """Send the unlocks that are held back; their bodies inherit ``header``, which may be empty.

    ``deadline`` is the one given at the call of the task that is sent next.
    """
    held = _held.get()
    if held:
        _held.set(())
        inherited = without_cost(header)
        for send in held:
            send(inherited, deadline)


class OrdinarySender:
    """Sends the tasks of one application that are not scheduled."""

    def __init__(self, tq: TQ, original: Callable[..., Any]) -> None:
        self._tq = tq
        self._original = original

    def send(
        self, request: Any, name: str, args: Any, kwargs: Any, countdown: Any, eta: Any,
        task_id: str | None, producer: Any, connection: Any, options: dict[str, Any],
    ) -> Any:  # fmt: skip
        """Pass a send on, with the workflow's header if there is a workflow."""
        headers = options.get("headers")
        unlocks = bool(name == _UNLOCK and args and len(args) > 1)
        contains = unlocks or any(options.get(each) for each in EMBEDDED)
        given = options.get("deadline")
        header = self._header(request, headers, options, contains)
        deadline = check("deadline", given) if given is not None else None
        if options.get("chord"):
            options["chord"] = without_deadline(options["chord"], deadline)
        rest = (kwargs, countdown, eta)
        if unlocks and not options.get("retries"):
            task_id = task_id or base.uuid()

            def later(found: Mapping[str, Any], deadline: Deadline | None) -> None:
                body, own = without_deadline(args[1], deadline), {**header, **found}
                if own:
                    options["headers"] = with_header(headers, own)
                    body = embed(body, own)
                self._original(
                    name, (args[0], body, *args[2:]), *rest, task_id, producer, connection,
                    **options,
                )  # fmt: skip

            _held.set((*_held.get(), later))
            return self._tq.app.AsyncResult(task_id)
        if not unlocks:
            release_unlocks(header, deadline)
        if header:
            options["headers"] = with_header(headers, header)
            spread(options, header)
            if unlocks:
                args = (args[0], embed(args[1], header), *args[2:])
        elif options.get("chord") and (known := body_header(options["chord"], {})):
            options["chord"] = embed(options["chord"], known)
        return self._original(name, args, *rest, task_id, producer, connection, **options)

    def _header(
        self,
        request: Any,
        headers: Mapping[str, Any] | None,
        options: dict[str, Any],
        contains: bool,
    ) -> dict[str, Any]:
        """Return the header of a task that is not scheduled; empty outside a workflow."""
        header: dict[str, Any] = {}
        inherited = request_header(request) if request is not None else None
        if isinstance(inherited, Mapping):
            header.update(without_cost(inherited))
        ambient = ambient_tenant()
        if ambient is not None and contains:
            header["tenant"] = ambient.decode("utf-8", "surrogateescape")
        if headers and isinstance(headers.get(HEADER), Mapping):
            header.update(headers[HEADER])
        if any(each in options for each in _OURS):
            priority = options.get("priority")
            call = take_call(options, _OURS)
            found = Effective(
                call.get("tenant", b""), call.get("cost", 1.0), 0, call.get("deadline")
            )
            written = found.header(int(time.time() * 1000) + self._tq.producers.clock_offset)
            header.update({each: written[each] for each in call})
            if type(priority) is int and 0 <= priority <= 255:
                header["priority"] = priority
        return header
