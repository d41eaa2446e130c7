"""A worker's short look at the namespace, when somebody inspects it: bounded in time and size.

Inspecting is answered in the worker's own loop, so a reply here may take half a second at most, and
the first that takes longer ends the look with StoreUnavailableError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from tq_celery.settings import Settings
from tq_celery.store.announcement import parse_announcement
from tq_celery.store.client import connect
from tq_celery.store.stopping import RedisStopping
from tq_celery.store.stopping_contract import Delayed

__all__ = ["Look", "Waiting"]

#: Longest wait for one reply, seconds.
PATIENCE = 0.5
#: Most workers that are looked at.
MAX_WORKERS = 10_000


class Waiting(NamedTuple):
    """A delayed task with its message, ``None`` where that is gone."""

    task: Delayed
    payload: bytes | None


class Look(RedisStopping):
    """Views of one namespace for a worker; only reads."""

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """Return a look with a connection of its own, which opens with the first question."""
        return cls(connect(settings.url, timeout=PATIENCE), settings.namespace, settings=settings)

    def led(self) -> bool:
        """Tell whether a scheduler leads."""
        (exists,) = self._ask([("EXISTS", self.keys.name("leader"))])
        return bool(exists)

    def spoken_for(self, worker: str, queues: Sequence[str]) -> list[str]:
        """Return which of its ``queues`` this worker answers for.

        Of the workers that live and consume a queue the one with the smallest name does.
        """
        name = self.keys.name
        ((seconds, micros),) = self._ask([("TIME",)])
        now = int(seconds) * 1000 + int(micros) // 1000
        alive = ("ZRANGE", name("workers"), f"({now}", "+inf", "BYSCORE", "LIMIT", 0, MAX_WORKERS)
        living, offers = self._ask([alive, ("HGETALL", name("announcements"))])
        first = dict.fromkeys(queues, worker)
        for other in living:
            offer = parse_announcement(other.decode(errors="replace"), offers.get(other), 0)
            for queue in offer.queues:
                if queue in first:
                    first[queue] = min(first[queue], offer.worker)
        return [queue for queue in queues if first[queue] == worker]

    def waiting_delayed(self, queues: Sequence[str], limit: int) -> list[Waiting]:
        """Return up to ``limit`` delayed tasks of the queues, soonest first."""
        tasks = self.delayed(queues, limit) if queues else []
        payloads = self.messages([task.key for task in tasks])
        return [Waiting(*pair) for pair in zip(tasks, payloads, strict=True)]

    def close(self) -> None:
        """Close the connection."""
        self.client.close()
