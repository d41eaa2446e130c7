"""How a verification looks at a namespace that may be at work.

1. One MULTI reads what is counted, how large everything is and, when there are not too many, every
   live task (``look.py``, ``tasks.py``). Result records are read up to the last one that was there
   then (``records.py``), so books and records belong to the same moment.
2. The checks compare (one file each) and yield what looks wrong.
3. What is wrong at one look counts only when the next looks find the same: in between a task may
   have been moved by the very step that was looked at in halves.

Nothing is written, and no reply has more than some thousand parts unless it is a MULTI's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tq_celery.store.keys import Keys
from tq_celery.store.verify import confirm, counts, dead, history, places
from tq_celery.store.verify.contract import Horizon, Verification, Violation
from tq_celery.store.verify.credit import credit, credit_limits, flights_of
from tq_celery.store.verify.limits import CLOCK, clock_was_stepped, limits
from tq_celery.store.verify.look import (
    AT_ONCE,
    Known,
    Look,
    discover,
    is_small,
    ms_of,
    read_sizes,
)
from tq_celery.store.verify.records import BEGINNING, Records, Settled
from tq_celery.store.verify.service import service, service_limits
from tq_celery.store.verify.tasks import (
    LIVE_PLACES,
    Tasks,
    read_pages,
    running_keys,
    task_commands,
    unpack_tasks,
)
from tq_celery.store.verify.waits import waits_of

__all__ = ["verify"]

#: Looks at which a violation has to be seen.
_LOOKS = 3
#: Seconds between them: longer than a task is between two places.
PAUSE = 0.2


def verify(
    client: Any,
    keys: Keys,
    *,
    done_memory: float = 3600.0,
    done_max: int = history.ENDLESS,
    at_once: int = AT_ONCE,
    pause: float = PAUSE,
) -> Verification:
    """Check the promises on one namespace; a bytes client, errors are StoreError.

    ``done_memory`` is how long (seconds) a settled key is remembered, and ``done_max`` how many
    are: a key that is accepted again later than that is a new task. Up to ``at_once`` live tasks
    are read in one MULTI, and ``pause`` seconds lie between two looks at what seems wrong.
    """
    eye = _Eye(client, keys, (int(done_memory * 1000), done_max), at_once)
    found = eye.look()
    for _ in range(_LOOKS - 1):
        if not found:
            break
        time.sleep(pause)
        again = eye.look()
        found = {name: again[name] for name in again if name in found}
    assert eye.horizon is not None
    return Verification(keys.namespace, eye.horizon, list(found.values()))


def _hidden(look: Look, tasks: Tasks, known: Known) -> bool:
    """Tell whether a tenant that was not asked for has tasks that were not met elsewhere."""
    asked = {tenant for _, tenant in known.pairs}
    met = Counter(each.tenant for each in tasks.placed if each.place != "draining")
    return any(look.live[tenant] != met[tenant] for tenant in look.live.keys() - asked)


class _Eye:
    """What is remembered from look to look: records, names, and the last horizon."""

    def __init__(self, client: Any, keys: Keys, done: tuple[int, int], at_once: int) -> None:
        self._client, self._keys = client, keys
        self._done, self._at_once = done, at_once
        self._records, self._known = Records(client, keys), Known()
        self.horizon: Horizon | None = None

    def look(self) -> dict[tuple[str, str], Violation]:
        """Look once; returns what is wrong, by promise and id."""
        look, tasks = self._read()
        records = self._records
        records.read_until(look.results.last)
        records.until = len(records.settled)
        if not tasks.at_once:
            # what was in flight at the look and has ended since is among the newer ones
            records.read_until(records.newest())
        checked: Counter[str] = Counter()
        self._limits: list[str] = []
        found: dict[tuple[str, str], Violation] = {}
        for violation in self._check(look, tasks, checked):
            found.setdefault((violation.promise, violation.id), violation)
        self.horizon = Horizon(
            since=ms_of(look.results.first) or look.at,
            until=look.at,
            live=sum(each.place in LIVE_PLACES for each in tasks.placed),
            results=look.results,
            dead=look.dead,
            checked=dict(checked),
            limits=(*limits(look, tasks, self._records), *self._limits),
        )
        return found

    def _read(self) -> tuple[Look, Tasks]:
        client, keys, known = self._client, self._keys, self._known
        discover(client, keys, known)
        commands = task_commands(keys, known)
        if is_small(client, keys, self._at_once) and len(known.pairs) <= self._at_once:
            look, replies = read_sizes(client, keys, known, commands)
            tasks = unpack_tasks(known, replies, True)
            look.unseen = look.unseen and _hidden(look, tasks, known)
            return look, tasks
        look, _ = read_sizes(client, keys, known, [])
        early = running_keys(client, keys, known)
        tasks = unpack_tasks(known, read_pages(client, commands), False)
        confirm.refresh(client, keys, tasks, early)
        return look, tasks

    def _check(self, look: Look, tasks: Tasks, checked: Counter[str]) -> Iterator[Violation]:
        name, settled = self._keys.name, self._records.settled[: self._records.until]
        last_of = {record.key: record for record in settled}
        names = {word: name(word) for word in ("results", "dead")}
        checked["horizon"] = len(names)
        gone = list(history.trimmed(look, names))
        yield from gone
        checked["epochs"] = sum(record.exec != BEGINNING for record in settled)
        yield from history.epochs(look, settled, tasks.placed, clock_was_stepped(settled))
        checked["settled_once"] = len(settled)
        yield from history.settled_once(settled, *self._done)
        checked["one_place"] = len(tasks.placed)
        yield from self._places(tasks, last_of)
        if tasks.at_once:
            yield from places.unwatched(tasks, look.held)
        letters = dead.letters_of(self._client, self._keys, look.dead.last)
        if not gone:
            alive = {each.key for each in tasks.placed}
            yield from dead.dead_letters(settled, letters, look.dead, alive | last_of.keys())
        checked["counters"] = len(look.counters)
        yield from counts.counters(look, tasks)
        checked["conservation"] = sum(
            n for c, n in look.counters.items() if c.startswith("accepted:")
        )
        yield from counts.conservation(look, None if gone else settled)
        if not (gone or self._records.unnamed or clock_was_stepped(settled)):
            yield from self._replay(look, tasks, checked)

    def _replay(self, look: Look, tasks: Tasks, checked: Counter[str]) -> Iterator[Violation]:
        settled = self._records.settled
        flights = flights_of(settled, tasks.placed)
        checked["credit"] = len(flights)
        yield from credit(look, flights)
        self._limits += credit_limits(look, flights)
        waits = list(waits_of(settled, tasks.placed))
        yield from service(look, waits, CLOCK, checked)
        self._limits += service_limits(look, waits)

    def _places(self, tasks: Tasks, last_of: Mapping[bytes, Settled]) -> Iterator[Violation]:
        live = [each.key for each in tasks.placed if each.place in LIVE_PLACES]
        done = confirm.remembered(self._client, self._keys, live)
        doubts = places.doubts_of_places(tasks, done, last_of)
        for violation, _ in confirm.still_wrong(self._client, self._keys, doubts):
            yield violation
