"""When a delivery that found no token of its rate limit shall come back.

Celery's bucket holds one token, so a token that waits for its task is lost. Each held delivery
therefore has the time of a token of its own. One that comes back a little early, because the token
before it was taken late, keeps its turn; one that comes newly goes behind them all.
"""

from __future__ import annotations

from collections import deque
from typing import Any

__all__ = ["LONGEST_HOLD", "Turns"]

#: Longest time a rate limit keeps a delivery out of reach, s: a worker that joins finds work.
LONGEST_HOLD = 30.0


class Turns:
    """The tokens of one type of task that are spoken for."""

    def __init__(self) -> None:
        #: Monotonic seconds, ascending.
        self._due: deque[float] = deque()
        self._bucket: Any = None

    def ask(self, bucket: Any, now: float) -> int:
        """Take a token of ``bucket``, or return for how many ms to stay away; 0 is a token.

        ``now`` is in monotonic seconds.
        """
        turns = self._due
        if bucket is not self._bucket:  # another limit was set
            turns.clear()
            self._bucket = bucket
        due = bool(turns) and turns[0] <= now
        if bucket.can_consume(1):
            if due:
                turns.popleft()
            return 0
        at: float = now + bucket.expected_time(1)
        if due:
            turns[0] = at
        else:
            at = max(at, turns[-1] + 1 / bucket.fill_rate if turns else 0.0)
            if at < now + LONGEST_HOLD:
                turns.append(at)
        return max(1, round(min(at - now, LONGEST_HOLD) * 1000))
