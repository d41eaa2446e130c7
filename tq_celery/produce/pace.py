"""Open-loop submission to a deployment: each task at its time, in batches of what is due.

Nothing here waits for workers. What the producer or the server cannot keep up with shows as *lag*,
how late a task was submitted, and not as a lower rate.
"""

from __future__ import annotations

import bisect
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tq_celery.errors import BulkError, TQError
from tq_celery.produce.claim import Claim
from tq_celery.workloads.work import Work

__all__ = ["BATCH", "Submitted", "submit"]

#: Most tasks of one call.
BATCH = 500

#: The run's entry is ahead of its tasks by those of so many seconds.
_AHEAD = 2.0

#: Longest pause between two looks at what else there is to do, in seconds.
_LOOK = 0.25


@dataclass(slots=True)
class Submitted:
    """What was submitted: tasks up to number ``sent``, with the lag of each from ``first`` on.

    Those up to ``upto`` may have been; ``seconds`` is how long all that has taken.
    """

    first: int
    sent: int
    upto: int
    seconds: float = 0.0
    lags: list[float] = field(default_factory=list)


def submit(
    works: Sequence[Work],
    claim: Claim,
    send: Callable[[Sequence[Work]], None],
    halt: threading.Event,
    look: Callable[[Submitted], None],
) -> Submitted:
    """Submit ``works`` from the claim's start on, and return when all are, or ``halt`` is set.

    The schedule of what is left begins now. ``look`` is called several times a second. What
    ``send`` and the claim raise passes through; the claim then says what may have been submitted.
    """
    done = Submitted(claim.start, claim.start, claim.start)
    if claim.start == len(works):
        claim.release(claim.start, claim.start)
        return done
    try:
        _submit(works, claim, send, halt, look, done)
    except Exception as error:
        refused = isinstance(error, BulkError) and not any(error.ids)
        # Others may go on at once, if the server can still be told.
        with contextlib.suppress(TQError):
            claim.release(done.sent, done.sent if refused else done.upto)
        raise
    claim.release(done.sent, done.sent)
    return done


def _submit(
    works: Sequence[Work],
    claim: Claim,
    send: Callable[[Sequence[Work]], None],
    halt: threading.Event,
    look: Callable[[Submitted], None],
    done: Submitted,
) -> None:
    total, times = len(works), [work.at for work in works]
    began = time.monotonic()
    origin = began - times[done.sent]
    while done.sent < total and not halt.is_set():
        now = time.monotonic() - origin
        end = min(bisect.bisect_right(times, now), done.sent + BATCH)
        if end <= done.sent:
            look(done)
            claim.sign(done.sent, done.upto)
            halt.wait(min(max(0.0, times[done.sent] - (time.monotonic() - origin)), _LOOK))
            continue
        if end > done.upto:
            ahead = bisect.bisect_right(times, now + _AHEAD)
            done.upto = max(end, min(ahead, done.sent + 4 * BATCH))
            claim.note(done.sent, done.upto)
        now = time.monotonic() - origin
        send(works[done.sent : end])
        done.lags += [now - at for at in times[done.sent : end]]
        done.sent = end
        done.seconds = time.monotonic() - began
        look(done)
        # Also where batches take long and there is no pause: silence means a dead producer.
        claim.sign(done.sent, done.upto)
