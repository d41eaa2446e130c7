"""Asks again, in one MULTI each, about single tasks that a look found wrong.

Keys of the done memory, and tasks that were read page by page, are not of the look's own moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tq_celery.store.inspect import CHUNK, ask
from tq_celery.store.keys import Keys
from tq_celery.store.verify.look import multi
from tq_celery.store.verify.places import Doubt
from tq_celery.store.verify.tasks import Placed, Tasks

__all__ = ["refresh", "remembered", "still_wrong"]


def remembered(client: Any, keys: Keys, live: Sequence[bytes]) -> set[bytes]:
    """Return those of the keys that are in the done memory."""
    found: set[bytes] = set()
    for start in range(0, len(live), CHUNK):
        part = live[start : start + CHUNK]
        for word in ("done:new", "done:old"):
            (digests,) = ask(client, "verify", [("HMGET", keys.name(word), *part)])
            found |= {key for key, digest in zip(part, digests, strict=True) if digest is not None}
    return found


def refresh(client: Any, keys: Keys, tasks: Tasks, early: set[bytes]) -> None:
    """Ask again about messages that came or went while the tasks were read page by page.

    ``early`` are keys that were running before the first page: they may have come back since to a
    place that had been read already.
    """
    placed = {each.key for each in tasks.placed}
    lonely = tasks.payload - placed - tasks.mourned
    asked = [*(placed - tasks.payload), *lonely]
    for start in range(0, len(asked), CHUNK):
        part = asked[start : start + CHUNK]
        there = ask(client, "verify", [("HEXISTS", keys.name("payload"), key) for key in part])
        for key, found in zip(part, there, strict=True):
            if found and key not in early:
                tasks.payload.add(key)
            else:
                tasks.payload.discard(key)


def still_wrong(client: Any, keys: Keys, doubts: Iterable[Doubt]) -> Iterator[Doubt]:
    """Yield the doubts of which the tasks they were seen by are there still, all at once."""
    for violation, seen in doubts:
        commands = [_where(keys, each) for each in seen]
        if all(_found(reply) for reply in multi(client, commands)):
            yield violation, seen


def _found(reply: Any) -> bool:
    return isinstance(reply, float) or bool(reply)  # a score may be 0


def _where(keys: Keys, each: Placed) -> tuple[Any, ...]:
    """Return the command that tells whether a task is where it was seen."""
    name = keys.name
    if each.place == "ingress":
        return ("XRANGE", name("ingress"), each.member, each.member)
    if each.place == "delayed":
        return ("ZSCORE", name("delayed"), each.member)
    if each.place == "draining":
        return ("HEXISTS", name("draining"), each.member)
    if each.place == "running":
        return ("HEXISTS", keys.of_queue("running", each.queue), each.member)
    return ("ZSCORE", keys.of_tenant(each.place, each.queue, each.tenant), each.member)
