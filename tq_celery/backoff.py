"""Decorrelated jitter: how long a failed task waits before it is tried again.

``retry_backoff="decorrelated"`` on a scheduled task replaces Celery's exponential back-off::

    sleep = min(cap, uniform(base, previous * 3))

``previous`` is the sleep before, ``base`` at first. Each task draws from a range that its own last
draw has set, so tasks that failed at one moment drift apart with every try, and no two tries of
one task are tied to a common power of two. The formula is from M. Brooker, "Exponential Backoff And
Jitter", AWS Architecture Blog, 2015
(https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from numbers import Real
from typing import NamedTuple

from tq_celery.errors import OptionError

__all__ = ["BACKOFF_HEADER", "DECORRELATED", "Backoff", "is_decorrelated", "read_previous"]

#: The value of ``retry_backoff`` that this module is about.
DECORRELATED = "decorrelated"
#: Header in which the last sleep travels with the task, in seconds.
BACKOFF_HEADER = "tq_backoff"
#: Shortest range of a first sleep, and Celery's own longest sleep, in seconds.
DEFAULT_BASE, DEFAULT_CAP = 1.0, 600.0

_RANGE = "a number of seconds from 0.001 to 1e9"


class Backoff(NamedTuple):
    """``base`` and ``cap`` of one task, in seconds; base is at most cap."""

    base: float = DEFAULT_BASE
    cap: float = DEFAULT_CAP

    @classmethod
    def of(cls, base: object, cap: object, jitter: object = True) -> Backoff:
        """Return a checked back-off from a task's options; raises OptionError."""
        if not jitter:
            raise OptionError("retry_jitter", jitter, 'True with retry_backoff = "decorrelated"')
        checked = cls(_seconds("retry_backoff_base", base), _seconds("retry_backoff_max", cap))
        if checked.base > checked.cap:
            raise OptionError(
                "retry_backoff_base", base, f"at most retry_backoff_max ({checked.cap:g} s)"
            )
        return checked

    def next(
        self,
        previous: float | None = None,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> float:
        """Return the seconds to wait after having waited ``previous``, None on the first try."""
        last = self.base if previous is None else min(max(previous, self.base), self.cap)
        return min(self.cap, uniform(self.base, last * 3))


def is_decorrelated(value: object) -> bool:
    """Tell whether ``retry_backoff`` is ours; raises OptionError for a word that nobody knows.

    Numbers, True, False and text that Celery reads as a number are Celery's.
    """
    if not isinstance(value, str):
        return False
    if value == DECORRELATED:
        return True
    try:
        float(value)
    except ValueError:
        raise OptionError(
            "retry_backoff", value, f'True, False, a number or "{DECORRELATED}"'
        ) from None
    return False


def read_previous(value: object) -> float | None:
    """Return the sleep in a message's header; None for what no sleep of ours can be."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and value > 0 else None


def _seconds(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise OptionError(name, value, _RANGE)
    seconds = float(value)
    if not 1e-3 <= seconds <= 1e9:
        raise OptionError(name, value, _RANGE)
    return seconds
