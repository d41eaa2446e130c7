"""What the records of a namespace tell about a run: pure arithmetic over them.

Stamps are the server's: the id of the exec entry, which the dispatch script wrote, and the id of
the result record, which the settling script wrote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bench.harness import books
from tq_celery.store.keys import Keys

__all__ = ["Dispatch", "Key", "dispatches", "lost", "settled_twice", "stale"]

#: Id, nesting, retries, generation.
Key = tuple[str, int, int, int]
#: Milliseconds on the server's clock, and the number within that millisecond.
Stamp = tuple[int, int]


class Dispatch(NamedTuple):
    """One settled task and its last dispatch; ``entry`` is (0, 0) when no worker had it."""

    entry: Stamp
    queue: str
    epoch: int
    key: Key
    attempts: int
    outcome: str
    worker: str
    #: When the store took the task, ms on the server's clock.
    submitted: int = 0


def _stamp(record: dict[str, bytes]) -> Stamp:
    ms, _, seq = record["entry"].partition(b"-")
    return int(ms or 0), int(seq or 0)


def dispatches(client: Any, keys: Keys) -> list[Dispatch]:
    """Return every result record as a dispatch, in the order of the exec entries."""
    return sorted(_each(client, keys))


def _each(client: Any, keys: Keys) -> Iterator[Dispatch]:
    for record in books.result_records(client, keys):
        key = (
            record["id"].decode(), int(record["nesting"]), int(record["retries"]),
            int(record["generation"]),
        )  # fmt: skip
        yield Dispatch(
            _stamp(record), record["queue"].decode(), int(record["epoch"]), key,
            int(record["attempts"]), record["outcome"].decode(), record["worker"].decode(),
            int(float(record["submitted"])),
        )  # fmt: skip


def stale(records: Iterable[Dispatch]) -> list[Dispatch]:
    """Return the dispatches under an epoch below that of an earlier one."""
    found, highest = [], 0
    for each in sorted(each for each in records if each.entry != (0, 0)):
        if each.epoch < highest:
            found.append(each)
        highest = max(highest, each.epoch)
    return found


def settled_twice(records: Iterable[Dispatch]) -> list[Key]:
    """Return the keys that have more than one result record."""
    return [key for key, count in Counter(each.key for each in records).items() if count > 1]


def lost(accepted: Iterable[str], records: Sequence[Dispatch]) -> list[str]:
    """Return the accepted ids that have no result record."""
    settled = {each.key[0] for each in records}
    return [task_id for task_id in accepted if task_id not in settled]
