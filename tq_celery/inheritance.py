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

from tq_celery.errors import OptionError
from tq_celery.options import Deadline, check_cost, check_priority, check_tenant

__all__ = ["EMBEDDED", "HEADER", "KEY_HEADER", "TOKEN_HEADER", "embed", "read_header", "spread"]

#: Name of the header with tenant, priority, cost and deadline.
HEADER = "tq"
#: Headers that a worker adds to a scheduled task's request: its delivery token and its key.
TOKEN_HEADER, KEY_HEADER = "tq_token", "tq_key"
#: Options of a send that contain signatures.
EMBEDDED = ("link", "link_error", "chain", "chord")
#: Arguments in which Celery's own signatures contain others.
_MEMBERS = ("tasks", "header", "body")


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
    """Write ``header`` into the signatures that a send's ``options`` contain, where absent."""
    for name in EMBEDDED:
        if options.get(name):
            options[name] = embed(options[name], header)


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
