"""What page and API ask and do, in threads of their own: Tornado's loop never waits for a server.

The readings are kept for :data:`FRESH` seconds, so any number of open pages costs one reading, and
so does a server that does not answer: who asks meanwhile gets the same error.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Generic, TypeVar

from tq_celery.errors import SchemaError, TQError
from tq_celery.flower.snapshot import DEAD, letter, take
from tq_celery.settings import Settings
from tq_celery.store.client import connect
from tq_celery.store.inspect import Inspector
from tq_celery.store.keys import Keys
from tq_celery.store.operator import SCHEMA
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.standing import Standings
from tq_celery.tenant_names import parse

__all__ = ["Desk", "Refused"]

#: Seconds for which a reading is good enough for others who ask.
FRESH = 1.0
#: Seconds the server may take for one reply.
PATIENCE = 5.0
#: Threads; a reading uses one at a time.
THREADS = 4

T = TypeVar("T")


class Refused(Exception):
    """What was asked for cannot be done: an HTTP status and why, in words."""

    def __init__(self, status: int, reason: str) -> None:
        self.status, self.reason = status, reason
        super().__init__(reason)


class _Kept(Generic[T]):
    """One reading, or how it failed, for all who ask within FRESH seconds."""

    def __init__(self, read: Callable[[], T], clock: Callable[[], float] = time.monotonic) -> None:
        self._read, self._clock = read, clock
        self._lock = threading.Lock()
        self._until = -math.inf
        self._drops = 0
        self._value: T | None = None
        self._error: TQError | None = None

    def get(self) -> T:
        with self._lock:
            if self._clock() >= self._until:
                self._value = self._error = None
                drops = self._drops
                try:
                    self._value = self._read()
                except TQError as error:
                    self._error = error
                self._until = self._clock() + FRESH if drops == self._drops else -math.inf
            if self._error is not None:
                raise self._error
            assert self._value is not None
            return self._value

    def drop(self) -> None:
        """Read again when next asked, even if a reading is under way."""
        self._drops += 1
        self._until = -math.inf


class Desk:
    """One namespace for the web: readings, and the operator's actions. Safe among threads.

    Nothing is sent before the first question; raises SettingsError for a URL that cannot be one.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        client = connect(settings.url, timeout=PATIENCE)
        self._inspector = Inspector(client, Keys(settings.namespace))
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tq-flower")
        self._snapshot = _Kept(self._take)
        self._dead = _Kept(self._read_dead)
        self._seen: tuple[object, list[dict[str, Any]]] | None = None

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run one of the methods below in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, function, *args)

    def close(self) -> None:
        """End the threads once they are done."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    # -- readings, for a thread ----------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return the namespace at one look, at most a second old."""
        return self._snapshot.get()

    def dead(self) -> list[dict[str, Any]]:
        """Return the newest dead letters."""
        return self._dead.get()

    def dead_letter(self, entry: str) -> dict[str, Any]:
        """Return one dead letter."""
        found = self._inspector.dead_letter(_entry(entry))
        if found is None:
            raise Refused(404, f"no such dead letter: {entry}")
        return letter(found)

    # -- actions, for a thread -----------------------------------------------------------------

    def requeue(self, entry: str) -> dict[str, Any]:
        """Send a dead letter through the queue again."""
        word = self._act(lambda store: store.requeue(_entry(entry).encode()))
        if word == "missing":
            raise Refused(404, f"no such dead letter: {entry}")
        if word == "unreadable":
            raise Refused(409, f"{entry} is not readable as a task")
        return {"entry": entry, "outcome": word}

    def pause_tenant(self, tenant: str) -> dict[str, Any]:
        """Hold back a tenant's tasks."""
        name = self._known_tenant(tenant)
        self._act(lambda store: store.pause_tenant(name))
        return {"tenant": tenant, "paused": True}

    def resume_tenant(self, tenant: str) -> dict[str, Any]:
        """Dispatch a paused tenant's tasks again."""
        name = self._known_tenant(tenant)
        self._act(lambda store: store.resume_tenant(name))
        return {"tenant": tenant, "paused": False}

    def set_weight(self, tenant: str, weight: str) -> dict[str, Any]:
        """Set a tenant's share."""
        try:
            number = float(weight)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and 1e-3 <= number <= 1e6):
            raise Refused(400, f"weight: {weight!r} is not allowed; expected 0.001 to 1000000")
        name = self._known_tenant(tenant)
        self._act(lambda store: store.set_weight(name, number))
        return {"tenant": tenant, "weight": number}

    def pause_queue(self, queue: str) -> dict[str, Any]:
        """Dispatch nothing of a queue."""
        self._known_queue(queue)
        self._act(lambda store: store.pause_queue(queue))
        return {"queue": queue, "paused": True}

    def resume_queue(self, queue: str) -> dict[str, Any]:
        """Dispatch a paused queue again."""
        self._known_queue(queue)
        self._act(lambda store: store.resume_queue(queue))
        return {"queue": queue, "paused": False}

    # -- how -----------------------------------------------------------------------------------

    @cached_property
    def _standings(self) -> Standings:
        return Standings(self._inspector)

    @cached_property
    def _store(self) -> RedisStore:
        return RedisStore.open(self.settings)

    def _take(self) -> dict[str, Any]:
        return take(self._inspector, self._standings)

    def _read_dead(self) -> list[dict[str, Any]]:
        """Read the dead letters when there are others than before; their messages may be long."""
        mark = (self._inspector.dead_count(), self._inspector.dead(1, newest=True))
        if self._seen is None or self._seen[0] != mark:
            self._seen = (mark, [letter(each) for each in self._inspector.dead(DEAD, newest=True)])
        return self._seen[1]

    def _act(self, action: Callable[[RedisStore], T]) -> T:
        """Change something; the next reading shows it."""
        schema = self._inspector.config().get("schema", str(SCHEMA))
        if schema != str(SCHEMA):
            name = self.settings.namespace
            raise SchemaError(
                "schema",
                f"namespace {name!r} has schema {schema}; this version works with {SCHEMA}",
            )
        try:
            return action(self._store)
        finally:
            self._snapshot.drop()
            self._dead.drop()

    def _known_tenant(self, tenant: str) -> bytes:
        try:
            name = parse(tenant)
        except ValueError as error:
            raise Refused(400, f"tenant: {error}") from None
        if not self._inspector.known(name):
            raise Refused(404, f"no such tenant: {tenant} has no settings and had no tasks of late")
        return name

    def _known_queue(self, queue: str) -> None:
        if queue not in {each["queue"] for each in self.snapshot()["queues"]}:
            raise Refused(404, f"no such queue: {queue} never took a task and no worker serves it")


def _entry(entry: str) -> str:
    """Return it when it can be the name of a stream's entry: two numbers of 64 bits."""
    found = re.fullmatch("([0-9]{1,20})-([0-9]{1,20})", entry)
    if found is None or max(map(int, found.groups())) >= 2**64:
        raise Refused(
            400, f"entry: {entry!r} is not a dead letter's entry, such as 1700000000000-0"
        )
    return entry
