"""How a workflow's tenant, priority, deadline and cost reach every task in it.

A message carries them in one header, ``tq``. Tasks sent from inside a task read it from the
current request. Tasks that a message *contains* (its chain, chord, callbacks and errbacks) are
sent later, by a worker's main process, by ``celery.chord_unlock`` or by a task without our
decorator, so the header is written into them when the message is published.

Nothing the caller owns is changed: a signature that gets the header is copied first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kombu.utils.functional import LRUCache

from tq_celery.errors import OptionError
from tq_celery.options import Deadline, check, check_cost, check_priority, check_tenant

__all__ = [
    "EMBEDDED", "HEADER", "KEY_HEADER", "TOKEN_HEADER",
    "body_header", "embed", "read_header", "spread", "with_header", "without_cost",
    "without_deadline",
]  # fmt: skip

#: Name of the header with tenant, priority, cost and deadline.
HEADER = "tq"
#: Headers that a worker adds to a scheduled task's request: its delivery token and its key.
TOKEN_HEADER, KEY_HEADER = "tq_token", "tq_key"
#: Options of a send that contain signatures.
EMBEDDED = ("link", "link_error", "chain", "chord")
#: Arguments in which Celery's own signatures contain others.
_MEMBERS = ("tasks", "header", "body")
#: What the bodies of chords inherited with the first member that was sent here, by the body's id.
_bodies: Any = LRUCache(limit=1000)


def read_header(raw: object) -> dict[str, Any]:
    """Return the checked options in a ``tq`` header; what is unreadable is left out.

    A message may have been written by anyone, and a task that inherits from it must still be sent.
    """
    if not isinstance(raw, Mapping):
        return {}
    values: dict[str, Any] = {}
    for name, checked in (
        ("tenant", check_tenant),
        ("cost", check_cost),
        ("priority", check_priority),
    ):
        try:
            value = checked(raw[name])
        except (KeyError, OptionError):
            continue
        if value is not None:
            values[name] = value
    deadline = raw.get("deadline")
    if type(deadline) is int and 0 < deadline < 2**53:
        values["deadline"] = Deadline(deadline, None)
    return values


def spread(options: dict[str, Any], header: Mapping[str, Any]) -> None:
    """Write ``header`` into the signatures that a send's ``options`` contain, where absent.

    A chord's body comes with every member of the header, and which of them sends it is chance: so
    it inherits from the first that has something to pass on, in all of them.
    """
    for name in EMBEDDED:
        contained = options.get(name)
        if contained:
            own = body_header(contained, header) if name == "chord" else header
            options[name] = embed(contained, own)


def body_header(body: Any, header: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the body of a chord inherits: ``header``, or what an earlier member had."""
    body_id = (body.get("options") or {}).get("task_id") if isinstance(body, Mapping) else None
    if body_id is None:
        return header
    known: Mapping[str, Any] | None = _bodies.get(body_id)
    if known is not None:
        return known
    if header:
        _bodies[body_id] = header
    return header


def with_header(headers: Mapping[str, Any] | None, header: dict[str, Any]) -> dict[str, Any]:
    """Return a message's headers with ours, and without what belongs to another delivery."""
    if not headers:
        return {HEADER: header}
    merged = {**headers, HEADER: header}
    merged.pop(TOKEN_HEADER, None)
    merged.pop(KEY_HEADER, None)
    return merged


def without_cost(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return a header for others: how long one task takes says nothing about the next."""
    return {name: value for name, value in header.items() if name != "cost"}


def without_deadline(body: Any, deadline: Deadline | None) -> Any:
    """Return a chord's body without a deadline that was given to the whole chord.

    Celery hands the options of a chord's call to its header and its body. Counted from the sending
    of the body, "within a minute" would be another minute; the header's has begun already, and the
    body inherits it. A deadline of the body's own stays.
    """
    if deadline is None or not isinstance(body, Mapping):
        return body
    options = body.get("options") or {}
    try:
        shared = check("deadline", options.get("deadline")) == deadline
    except OptionError:
        return body
    if not shared:
        return body
    kept = {name: value for name, value in options.items() if name != "deadline"}
    return {**body, "options": kept}


def embed(signature: Any, header: Mapping[str, Any]) -> Any:
    """Return a copy of a signature, or of a list of them, with ``header`` where it is absent."""
    if not isinstance(signature, Mapping):
        if isinstance(signature, str) or not hasattr(signature, "__iter__"):
            return signature
        return [embed(item, header) for item in signature]
    if "task" not in signature:
        return signature
    copy = dict(signature)
    options = dict(copy.get("options") or {})
    spread(options, header)
    kwargs = copy.get("kwargs")
    if copy.get("subtask_type") and isinstance(kwargs, Mapping):
        copy["kwargs"] = {
            name: embed(value, header) if name in _MEMBERS else value
            for name, value in kwargs.items()
        }
    if not _is_container(copy):
        headers = options.get("headers") or {}
        if HEADER not in headers:
            options["headers"] = {**headers, HEADER: dict(header)}
    copy["options"] = options
    return copy


def _is_container(signature: Mapping[str, Any]) -> bool:
    """Tell whether only the signature's members are sent, and not the signature itself."""
    return signature.get("subtask_type") in ("chain", "group", "chord")
