"""Where one task is, for who asks about it by its id: read-only, and never for a decision.

A live task is found where it lies, as revoking finds it. One that has ended is looked for among the
newest results, and then, if it was buried, among the newest dead letters. What is read from more
than one place is not a snapshot: a task may move on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tq_celery.errors import StoreError
from tq_celery.states import State
from tq_celery.store.contract import MAX_BATCH
from tq_celery.store.keys import GROUP
from tq_celery.store.locating import RedisLocating, raw_id
from tq_celery.store.record import (
    RUN,
    Record,
    TaskKey,
    split_stored,
    unpack_delayed,
    unpack_record,
)
from tq_celery.store.stopping_contract import Found, Located

__all__ = ["LOOK_BACK", "Ending", "Sighting", "Sightings"]

#: Newest entries of a stream that are looked through for one task.
LOOK_BACK = 20_000
#: Searches for a task that moves meanwhile.
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Sighting:
    """A live task: ``state`` is None when it moved on faster than it could be found.

    ``member`` is its member or entry in the structure of its state. ``due`` is set while it is
    delayed, ``score`` while it is pending, ``dispatched`` afterwards and ``worker`` while one has
    it. ``outdated`` tells that its rank is of an older policy. Times are ms, 0 for none.
    """

    place: Located
    state: State | None = None
    record: Record | None = None
    member: bytes = b""
    due: int = 0
    score: float = 0.0
    dispatched: int = 0
    worker: str = ""
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """A task that has ended: ``outcome`` is empty when no result of it is left.

    ``reason`` is that of its dead letter ``entry``, empty for other outcomes.
    """

    outcome: str = ""
    key: str = ""
    queue: str = ""
    tenant: bytes = b""
    worker: str = ""
    finished: int = 0
    reason: str = ""
    entry: str = ""


class Sightings(RedisLocating):
    """Finds single tasks and says what is known of them."""

    def find(self, task_id: str) -> Sighting | None:
        """Return where the task is; None for one that is not known or has ended."""
        seen = None
        for _ in range(_ROUNDS):
            place = self.locate([task_id]).get(task_id)
            if place is None:
                return None
            seen, key = Sighting(place), place.key.encode()
            places = {key: place}
            # what runs is found before a look at all that waits
            searches = chain([self._near([place])], self._delivered(places))
            for batch in chain(searches, self._everywhere(places)):
                for found in batch:
                    if found.key == key and (closer := self._look_closer(found, place)):
                        return closer
        return seen

    def ended(self, task_id: str) -> Ending | None:
        """Return how the task ended, None when nothing says that it did."""
        raw = raw_id(task_id)
        for entry, fields in self._newest("results"):
            if fields.get(b"id") == raw:
                return self._ending(entry, fields)
        key = TaskKey(task_id).encode()
        settled = self._ask(
            [("HEXISTS", self.keys.name(word), key) for word in ("done:new", "done:old")]
        )
        return Ending() if any(settled) else None

    def revoked(self, task_id: str) -> bool:
        """Tell whether the id is marked as revoked, so that the task ends when it comes."""
        ends, (seconds, _) = self._ask(
            [("ZSCORE", self.keys.name("revoked"), raw_id(task_id)), ("TIME",)]
        )
        return ends is not None and float(ends) > int(seconds) * 1000

    def message(self, key: bytes) -> bytes | None:
        """Return the stored message of a task, None when it is gone."""
        (stored,) = self._ask([("HGET", self.keys.name("payload"), key)])
        return split_stored(stored)[1]

    def submitted_before(self, entry: bytes, most: int) -> int:
        """Count the submitted tasks before one, up to about ``most``."""
        count, start = 0, "-"
        while count < most:
            with self._reading():
                page: Any = self.client.xrange(
                    self.keys.name("ingress"), start, f"({entry.decode()}", count=MAX_BATCH
                )
            count += len(page)
            if len(page) < MAX_BATCH:
                break
            start = f"({page[-1][0].decode()}"
        return count

    def _look_closer(self, found: Found, place: Located) -> Sighting | None:
        """Read a task where it was found; None when it is not there any more."""
        item, name = found.item, self.keys.name
        member = item.member
        if item.where == "delayed":
            (due,) = self._ask([("ZSCORE", name("delayed"), member)])
            record = unpack_record(unpack_delayed(member)[2])
            return due and Sighting(place, State.DELAYED, record, member, due=int(float(due)))
        if item.where == "ingress":
            (entries,) = self._ask([("XRANGE", name("ingress"), member, member)])
            if not entries:
                return None
            record = unpack_record(unpack_delayed(entries[0][1][b"d"])[2])
            return Sighting(place, State.SUBMITTED, record, member)
        if item.where == "pending":
            scores = self._ask(
                [
                    ("ZSCORE", self.keys.of_tenant(word, item.queue, item.tenant), member)
                    for word in ("pending", "outdated")
                ]
            )
            score = next((float(each) for each in scores if each is not None), None)
            if score is None:
                return None
            record, old = unpack_record(member), scores[0] is None
            return Sighting(place, State.PENDING, record, member, score=score, outdated=old)
        return self._delivery(item.queue, member, place)

    def _delivery(self, queue: str, entry: bytes, place: Located) -> Sighting | None:
        (run,) = self._ask([("HGET", self.keys.of_queue("running", queue), entry)])
        if run is None:
            return None
        record = unpack_record(run[RUN.size + RUN.unpack_from(run)[3] :])
        at, worker = int(entry.partition(b"-")[0]), self._holder(queue, entry)
        state = State.DISPATCHED if worker is None else State.RUNNING
        return Sighting(place, state, record, entry, dispatched=at, worker=worker or "")

    def _holder(self, queue: str, entry: bytes) -> str | None:
        """Return the worker that has read a delivery, None when none has."""
        name = self.keys.of_queue("exec", queue)
        try:
            with self._reading():
                held: Any = self.client.xpending_range(name, GROUP, entry, entry, 1)
        except StoreError as error:
            if "NOGROUP" in str(error):
                return None
            raise
        return held[0]["consumer"].decode(errors="replace") if held else None

    def _newest(self, word: str) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        """Yield a stream's entries, newest first, as far back as one looks."""
        end, looked = "+", 0
        while looked < LOOK_BACK:
            with self._reading():
                page: Any = self.client.xrevrange(self.keys.name(word), end, count=MAX_BATCH)
            yield from page
            looked += len(page)
            if len(page) < MAX_BATCH:
                return
            end = f"({page[-1][0].decode()}"

    def _ending(self, entry: bytes, fields: dict[bytes, bytes]) -> Ending:
        def text(name: bytes) -> str:
            return fields.get(name, b"").decode(errors="replace")

        parts = (b"nesting", b"retries", b"generation", b"id")
        outcome, key = text(b"outcome"), ".".join(map(text, parts))
        reason, letter = self._letter(key) if outcome == "dead" else ("", "")
        finished = int(entry.partition(b"-")[0])
        tenant = fields.get(b"tenant", b"")
        queue, worker = text(b"queue"), text(b"worker")
        return Ending(outcome, key, queue, tenant, worker, finished, reason, letter)

    def _letter(self, key: str) -> tuple[str, str]:
        """Return reason and entry of a key's dead letter, empty when it is gone."""
        raw = key.encode()
        for entry, fields in self._newest("dead"):
            if fields.get(b"key") == raw:
                return fields.get(b"reason", b"").decode(errors="replace"), entry.decode()
        return "", ""
