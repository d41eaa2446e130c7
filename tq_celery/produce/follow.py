"""What became of a run's tasks, read from the namespace's results while they come in."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tq_celery.measures import percentile
from tq_celery.store.base import chunks
from tq_celery.store.run_book import RunBook
from tq_celery.store.stopping import RedisStopping

__all__ = ["Follower", "Waits", "follow"]

#: Results read in one step.
_PAGE = 500

#: Seconds between two looks.
_LOOK = 0.2

#: Seconds without a result after which the tasks that are missing are looked for.
_QUIET = 3.0


@dataclass(frozen=True, slots=True)
class Waits:
    """How long tasks waited from their submission to their start, in seconds."""

    count: int
    p50: float
    p95: float
    max: float

    @classmethod
    def of(cls, waits: Sequence[float]) -> Waits:
        """Summarise; all zero for none."""
        if not waits:
            return cls(0, 0.0, 0.0, 0.0)
        ordered = sorted(waits)
        return cls(len(ordered), percentile(ordered, 50), percentile(ordered, 95), ordered[-1])


class Follower:
    """Counts the results of the tasks ``<run>-<job>`` that come after the result ``after``."""

    def __init__(self, book: RunBook, run: str, total: int, after: str) -> None:
        self._book, self._prefix, self._after = book, f"{run}-", after
        self._ended = bytearray(total)
        self.total = total
        self.outcomes: Counter[str] = Counter()
        self._waits: defaultdict[str, list[float]] = defaultdict(list)

    @property
    def ended(self) -> int:
        """How many tasks have a result that was seen."""
        return sum(self.outcomes.values())

    def poll(self) -> int:
        """Read what has come in since; returns how many of the run's tasks it had."""
        before = self.ended
        while page := self._book.results_after(self._after, _PAGE):
            for _, fields in page:
                self._count(fields)
            self._after = page[-1][0]
            if len(page) < _PAGE:
                break
        return self.ended - before

    def missing_ids(self) -> list[str]:
        """Return the ids of the tasks without a result."""
        return [f"{self._prefix}{job}" for job, ended in enumerate(self._ended) if not ended]

    def waits(self) -> dict[str, Waits]:
        """Return the waits by tenant, those of most tasks first; only of what was started."""
        ordered = sorted(self._waits.items(), key=lambda item: (-len(item[1]), item[0]))
        return {tenant: Waits.of(waits) for tenant, waits in ordered}

    def all_waits(self) -> Waits:
        """Return the waits of all tasks together."""
        return Waits.of([wait for waits in self._waits.values() for wait in waits])

    def _count(self, fields: Mapping[bytes, bytes]) -> None:
        task_id = fields.get(b"id", b"").decode(errors="replace")
        number = task_id.removeprefix(self._prefix)
        if number == task_id or not number.isdecimal() or int(number) >= self.total:
            return
        job = int(number)
        if self._ended[job] or f"{self._prefix}{job}" != task_id:
            return
        self._ended[job] = 1
        self.outcomes[fields.get(b"outcome", b"?").decode(errors="replace")] += 1
        started = float(fields.get(b"started", b"0"))
        if started > 0:
            tenant = fields.get(b"tenant", b"").decode(errors="replace")
            wait = (started - float(fields.get(b"submitted", b"0"))) / 1000
            self._waits[tenant].append(max(0.0, wait))


def follow(
    follower: Follower,
    store: RedisStopping,
    halt: threading.Event,
    look: Callable[[Follower], None],
) -> int:
    """Wait until every task has ended, or ``halt`` is set.

    Returns how many have ended without a result that could still be read: the results are capped.
    """
    quiet_since = time.monotonic()
    while follower.ended < follower.total and not halt.is_set():
        now = time.monotonic()
        if follower.poll():
            quiet_since = now
        elif now - quiet_since > _QUIET:
            if not any(store.locate(chunk) for chunk in chunks(follower.missing_ids())):
                # What had ended by then is in the results, if it is anywhere.
                follower.poll()
                return follower.total - follower.ended
            quiet_since = now
        look(follower)
        halt.wait(_LOOK)
    return 0
