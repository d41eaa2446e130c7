"""Gives the parts of a replacement ids that are the same when the task is run again.

``Task.replace`` by a group or a chord sends many messages before the replaced task is settled. When
its worker dies in between, the task runs again, and Celery would draw new ids for the header and
its members: all of them would run twice. Here the ids are derived from the task's key and from what
the replacement says, so a second run sends the same messages, and of each the first acceptance
stands. A run that replaces itself by something else gets other ids.
"""

from __future__ import annotations

import hashlib
from typing import Any
from uuid import UUID

from celery.canvas import group, maybe_signature
from kombu.utils.json import dumps

from tq_celery.logs import Log

__all__ = ["give_ids"]

log = Log(__name__)


def give_ids(signature: Any, key: str) -> None:
    """Write ids into ``signature``, which replaces the task with ``key``, where there are none.

    What takes over the replaced task's own id is left without one. Members are copied before they
    get an id, as Celery does, so that a signature that is used twice stays two tasks. When the
    content cannot be told apart by value nothing is written, and the ids are Celery's.
    """
    without: list[dict[str, Any]] = []
    _collect(signature, without, takes_over=True)
    try:
        content = dumps(signature)
    except (TypeError, ValueError):
        log.debug("the ids of a replacement are not stable: it has no JSON", exc_info=True)
        return
    seed = hashlib.blake2b(f"{key}\0{content}".encode(), digest_size=32).digest()
    for number, options in enumerate(without):
        drawn = hashlib.blake2b(number.to_bytes(4, "big"), key=seed, digest_size=16).digest()
        options["task_id"] = str(UUID(bytes=drawn, version=4))


def _collect(signature: Any, without: list[dict[str, Any]], *, takes_over: bool) -> None:
    """Add to ``without`` the options of all parts that need an id, in the order of the parts."""
    kind = signature.subtask_type
    if kind == "chain":
        signature.tasks = _copies(signature)
        for number, each in enumerate(signature.tasks, 1):
            _collect(each, without, takes_over=takes_over and number == len(signature.tasks))
    elif kind == "chord":
        header = signature.tasks
        if isinstance(header, group):
            signature.tasks = header = header.clone()
        else:
            signature.tasks = header = group(header, app=signature.app)
        _collect(header, without, takes_over=False)
        if signature.body is not None:
            _collect(signature.body, without, takes_over=takes_over)
    elif kind == "group":
        signature.tasks = _copies(signature)
        for each in signature.tasks:
            _collect(each, without, takes_over=False)
        _needs_id(signature, without)
    elif not takes_over:
        _needs_id(signature, without)


def _copies(signature: Any) -> list[Any]:
    return [maybe_signature(each, app=signature.app, clone=True) for each in signature.tasks]


def _needs_id(signature: Any, without: list[dict[str, Any]]) -> None:
    if "task_id" not in signature.options:
        without.append(signature.options)
