"""Each dead letter belongs to a task that ended as dead, and each such task has its letter.

Unless an operator requeued or purged it: then the stream tells that an entry was removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tq_celery.states import Outcome
from tq_celery.store.inspect import reading
from tq_celery.store.keys import Keys
from tq_celery.store.record import TaskKey
from tq_celery.store.verify.contract import StreamSeen, Violation, text
from tq_celery.store.verify.records import Settled

__all__ = ["dead_letters", "letters_of", "removed_letters"]

#: Letters in one reply: each comes with its message, which may have a megabyte.
_PAGE = 50


def letters_of(client: Any, keys: Keys, last: str) -> dict[bytes, str]:
    """Return key and entry of every dead letter up to entry ``last``, unreadable ones left out."""
    found: dict[bytes, str] = {}
    after = "-"
    while last:
        with reading("dead"):
            page = client.xrange(keys.name("dead"), min=after, max=last, count=_PAGE)
        for entry, fields in page:
            if b"key" in fields:
                found[fields[b"key"]] = entry.decode()
        if len(page) < _PAGE:
            break
        after = "(" + page[-1][0].decode()
    return found


def dead_letters(
    settled: Iterable[Settled], letters: Mapping[bytes, str], seen: StreamSeen, known: set[bytes]
) -> Iterator[Violation]:
    """Yield letters without a record, and records without a letter that nobody removed.

    ``known`` are keys that are live or settled: a requeued letter left its next generation there.
    """
    buried = {record.key for record in settled if record.outcome == Outcome.DEAD}
    for key in sorted(letters.keys() - buried):
        yield _broken(text(key), f"has the dead letter {letters[key]} and did not end as dead")
    missing = buried - letters.keys()
    if len(missing) > removed_letters(seen):
        for key in sorted(key for key in missing if _again(key) not in known):
            yield _broken(text(key), "ended as dead and has no dead letter")


def removed_letters(seen: StreamSeen) -> int:
    """Return how many letters somebody removed, by requeuing or purging them."""
    return max(0, seen.added - seen.length - seen.dropped)


def _again(key: bytes) -> bytes:
    """Return the key under which a dead letter is sent again."""
    try:
        task = TaskKey.decode(key)
    except ValueError:
        return b""
    return task._replace(generation=task.generation + 1).encode()


def _broken(name: str, message: str) -> Violation:
    return Violation("one_place", name, message)
