"""What the order in which a worker started its tasks says: pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.harness.events import Event

__all__ = ["Order", "order"]


@dataclass(frozen=True, slots=True)
class Order:
    """``share`` of the critical tasks that started before the first unimportant one.

    ``in_front`` is their share among as many first starts as there are critical tasks: a single
    unimportant task that slips in front makes ``share`` small and this hardly less than 1.
    """

    share: float
    in_front: float


def order(events: Iterable[Event], count: int) -> Order:
    """Judge the starts among ``events``; jobs from ``count`` on are critical, ``count`` of them.

    Raises ``ValueError`` unless each of the ``2 * count`` tasks has started exactly once.
    """
    starts = sorted((event.at, event.job) for event in events if event.word == "S")
    if sorted(job for _, job in starts) != list(range(2 * count)):
        raise ValueError(f"{len(starts)} starts of {2 * count} tasks")
    critical = [job >= count for _, job in starts]
    return Order(critical.index(False) / count, sum(critical[:count]) / count)
