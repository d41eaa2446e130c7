"""What a storm leaves behind, and the back-off that every arm shares."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["BASE", "CAP", "Moments"]

#: Seconds of the first sleep's lower end, and of the longest sleep, in every arm.
BASE, CAP = 1, 8


class Moments(NamedTuple):
    """Monotonic seconds: when the first tries began, when retries were to come, when they came."""

    failed: list[float]
    due: list[float]
    started: list[float]
