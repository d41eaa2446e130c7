"""Chords that Celery leaves without an end: a lost last member, a revoked chain in the header.

Celery's Redis backend counts each part once, however often its task runs, and the member that
completes the count takes a claim before it sends the body, so that no other sends it too. A claim
outlives a holder that is killed, and until it runs out a second run of the member leaves the body
to the dead. So a second run waits for the claim's end, and then sends the body itself; a body that
had been sent is accepted once, because its id is the same.

Other backends have no claim: with those that poll (``celery.chord_unlock``) there is nothing to
lose, and those that only count cannot tell a repeated part from a new one.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import states
from celery.exceptions import TaskRevokedError

__all__ = ["claim_left", "end_chain", "part_is_settled"]

logger = logging.getLogger("tq_celery.worker")

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
        logger.warning("The result backend could not be asked about a chord", exc_info=True)
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
    if request.chain:
        backend._fail_chain(request.chain, TaskRevokedError(reason), state=states.REVOKED)


def _claims(backend: Any) -> bool:
    """Whether the backend counts parts by name and takes a claim: Celery's Redis backend does."""
    return hasattr(type(backend), "_chord_part_return_script")
