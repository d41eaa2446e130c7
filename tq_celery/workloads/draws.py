"""The one source of chance of a workload, and the order in which it is used.

Task by task, each takes eight numbers from the same seeded source, always in the same order and
whether it uses them or not::

    arrival, seconds, tenant, priority, deadline, and three that nothing uses yet

So the same seed gives every workload the same priorities, a longer run begins with the tasks of a
shorter one, and something drawn in future takes a spare number without moving any other.

Only ``random()`` is taken from the library: its numbers are promised to stay the same from one
Python to the next, which those of its other methods are not. What is made of them is rounded to
whole microseconds, where the last digits of a logarithm, which differ between machines, are gone.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

__all__ = ["DRAWS", "Draw", "draws", "pick"]

#: Numbers that one task takes from the source.
DRAWS = 8

T = TypeVar("T")


class Draw(NamedTuple):
    """The chance of one task: numbers from 0 up to but without 1."""

    arrival: float
    seconds: float
    tenant: float
    priority: float
    deadline: float


def draws(seed: int) -> Iterator[Draw]:
    """Yield one draw per task, without end; ``seed`` is 0 or more."""
    # `random` seeds by the absolute value: a negative one would give the tasks of another seed.
    if seed < 0:
        raise ValueError(f"seed {seed} is negative")
    source = random.Random(seed)
    while True:
        arrival, seconds, tenant, priority, deadline, *_ = (source.random() for _ in range(DRAWS))
        yield Draw(arrival, seconds, tenant, priority, deadline)


def pick(choices: Sequence[tuple[T, float]], draw: float) -> T:
    """Return one of ``choices``, pairs of a value and its probability, by one drawn number."""
    sums = itertools.accumulate(share for _, share in choices)
    return next(
        (c for (c, _), sum_ in zip(choices, sums, strict=True) if draw < sum_), choices[-1][0]
    )
