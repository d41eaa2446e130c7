"""Chords that Celery leaves without an end: a lost last member, a revoked chain in the header, a
failed chord in the header of another.

Celery's Redis backend counts each part once, however often its task runs, and the member that
completes the count takes a claim before it sends the body, so that no other sends it too. A claim
outlives a holder that is killed, and until it runs out a second run of the member leaves the body
to the dead. So a second run waits for the claim's end, and then sends the body itself; a body that
had been sent is accepted once, because its id is the same.

Other backends have no claim: with those that poll (``celery.chord_unlock``) there is nothing to
lose, and those that only count cannot tell a repeated part from a new one.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

from celery import states
from celery.app.task import Context
from celery.exceptions import TaskRevokedError

from tq_celery.inheritance import HEADER
from tq_celery.logs import Log
from tq_celery.result_backend import adjust_backends

__all__ = ["claim_left", "end_chain", "end_outer_chords", "part_is_settled"]

log = Log("tq_celery.worker")

#: What the claim's key holds once the body was sent.
_DONE = b"done"
#: Added to what is left of a claim, ms: it is over when the server has forgotten it.
_MARGIN = 200


def claim_left(backend: Any, request: Any) -> int:
    """Return for how many ms somebody may still hold the claim on the chord of ``request``.

    Zero when there is no chord, no claim, or the body was sent. A backend that cannot be asked
    holds nothing back.
    """
    group = request.group
    if group is None or not _claims(backend) or not request.chord:
        return 0
    try:
        key = backend.get_key_for_group(group, ".c")
        holder = backend.client.get(key)
        if holder is None or holder in (_DONE, _DONE.decode()):
            return 0
        return max(0, int(backend.client.pttl(key))) + _MARGIN
    except Exception:
        log.warning(
            "the result backend could not be asked about a chord", exc_info=True, task_id=request.id
        )
        return 0


def part_is_settled(backend: Any, request: Any, result: Any) -> bool:
    """Count the part of a task that stored its success and whose process was lost afterwards.

    Returns False when the chord is complete and its body may not have been sent. May raise what
    the backend raises.
    """
    if request.group is None or not _claims(backend) or not request.chord:
        return True
    backend.on_chord_part_return(request, states.SUCCESS, result)
    return claim_left(backend, request) == 0


def end_chain(backend: Any, request: Any, reason: str) -> None:
    """End what is chained after a task that was revoked or has expired, and the chord of the chain.

    Celery does this for failures alone, and then whoever waits for the end of the chain, or for a
    chord with such a chain in its header, waits for ever. It comes before the task's own state: a
    worker that dies in between does both again. May raise what the backend raises.
    """
    error = TaskRevokedError(reason)
    rest = deque(request.chain or ())
    while rest:
        part = Context(rest.popleft())
        part.update(part.options)
        part.id, part.group = part.options.get("task_id"), part.options.get("group_id")
        returns = bool(part.options.get("chord"))
        if part.id is not None:
            # a part that failed before has been counted
            returns = returns and backend.get_state(part.id) not in states.PROPAGATE_STATES
            backend.store_result(part.id, error, states.REVOKED, request=part)
        if returns:
            backend.on_chord_part_return(part, states.REVOKED, error)
        if getattr(part, "subtask_type", None) == "chord" and (part.kwargs or {}).get("body"):
            rest.append(part.kwargs["body"])  # whoever waits for a chord waits for its body


def end_outer_chords(app: Any) -> None:
    """Let a chord that fails end the chord in whose header it stands; for a worker's application.

    Celery writes the failure to the inner body alone, and a backend that counts parts then waits
    for that body's part for ever. Chords of ordinary workflows keep Celery's way. Called before the
    pool starts, so that its processes have it too.
    """
    adjust_backends(app, _report_to_outer)


def _report_to_outer(backend: Any) -> None:
    theirs = getattr(backend, "chord_error_from_stack", None)
    if theirs is None:
        return

    def chord_error_from_stack(callback: Any, exc: Any = None) -> Any:
        error = sys.exc_info()[1] if exc is None else exc
        result = theirs(callback, exc)  # first: the outer chord may read the inner body's state
        for options in _ends(callback):
            outer, group = options.get("chord"), options.get("group_id")
            if outer and group and (_is_ours(options) or _is_ours(outer["options"])):
                part = Context(
                    id=options["task_id"], group=group, group_index=options.get("group_index"),
                    chord=outer,
                )  # fmt: skip
                backend.on_chord_part_return(part, states.FAILURE, error)
        return result

    backend.chord_error_from_stack = chord_error_from_stack


def _ends(signature: Any) -> Iterator[dict[str, Any]]:
    """Yield the options of the tasks with which a body ends; they are parts of the outer chord."""
    kind = signature.get("subtask_type")
    kwargs = signature.get("kwargs") or {}
    if kind in ("chain", "group"):
        tasks = list(kwargs.get("tasks") or ())
        for each in tasks[-1:] if kind == "chain" else tasks:
            yield from _ends(each)
    elif kind == "chord" and kwargs.get("body"):
        yield from _ends(kwargs["body"])
    else:
        yield signature.get("options") or {}


def _is_ours(options: Any) -> bool:
    return HEADER in (options.get("headers") or ())


def _claims(backend: Any) -> bool:
    """Whether the backend counts parts by name and takes a claim: Celery's Redis backend does."""
    return hasattr(type(backend), "_chord_part_return_script")
