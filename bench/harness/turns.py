"""Who runs when: rivals side by side in every repetition, the order turning round each time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

__all__ = ["turns"]

Item = TypeVar("Item")


def turns(repetitions: int, rivals: Sequence[Item]) -> Iterator[tuple[int, Item]]:
    """Yield (repetition from 0, rival); whoever was first is last in the next repetition.

    What runs earlier finds another machine than what runs later: turning the order spreads that
    over all of them.
    """
    for repetition in range(repetitions):
        for rival in rivals if repetition % 2 == 0 else rivals[::-1]:
            yield repetition, rival
