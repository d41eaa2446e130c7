"""Result records as the checks need them, read once each: what is in the stream never changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tq_celery.store.inspect import reading
from tq_celery.store.keys import Keys

__all__ = ["BEGINNING", "EntryId", "Records", "Settled", "entry_id"]

#: Records in one reply.
_PAGE = 2_000

#: A stream entry's id: ms and sequence.
EntryId = tuple[int, int]
BEGINNING: EntryId = (0, 0)


class Settled(NamedTuple):
    """One result record; see ``docs/reference/results.md`` for the fields and their units.

    ``at`` is the record's own id, ``exec`` that of the last exec entry (:data:`BEGINNING` when it
    ended outside a worker's hands).
    """

    at: EntryId
    key: bytes
    queue: str
    tenant: bytes
    outcome: str
    epoch: int
    submitted: int
    arrived: int
    admitted: int
    exec: EntryId
    redelivered: bool
    cost: float
    priority: int
    deadline: int
    started: float
    finished: float

    @property
    def name(self) -> str:
        """The key as text."""
        return self.key.decode("utf-8", "backslashreplace")


class Records:
    """The records of a namespace from the first one that is there; grows with every look."""

    def __init__(self, client: Any, keys: Keys) -> None:
        self._client = client
        self._name = keys.name("results")
        self._last = "0-0"
        self.settled: list[Settled] = []
        #: How many of them belong to the look; those after it say what became of tasks meanwhile.
        self.until = 0
        #: Records that do not name their exec entry: written by an earlier version.
        self.unnamed = 0
        #: Ids of entries that are no result records.
        self.unreadable: list[str] = []

    def read_until(self, last: str) -> None:
        """Read on up to and including entry ``last``; nothing for an empty id."""
        while last and entry_id(self._last.encode()) < entry_id(last.encode()):
            with reading("results"):
                page = self._client.xrange(self._name, min=f"({self._last}", max=last, count=_PAGE)
            for entry, fields in page:
                self._take(entry, fields)
            if not page:
                return
            self._last = page[-1][0].decode()

    def newest(self) -> str:
        """Return the id of the newest record there is by now, empty for none."""
        with reading("results"):
            found = self._client.xrevrange(self._name, count=1)
        return found[0][0].decode() if found else ""

    def _take(self, entry: bytes, fields: Mapping[bytes, bytes]) -> None:
        try:
            record = _settled(entry, fields)
        except (KeyError, ValueError):
            self.unreadable.append(entry.decode())
            return
        if record.exec == BEGINNING and fields.get(b"dispatched", b"0") != b"0":
            self.unnamed += 1
        self.settled.append(record)


def entry_id(raw: bytes) -> EntryId:
    """Return the two numbers of a stream entry's id."""
    ms, _, sequence = raw.partition(b"-")
    return int(ms), int(sequence or 0)


def _settled(entry: bytes, f: Mapping[bytes, bytes]) -> Settled:
    delivered = f.get(b"entry", b"")
    return Settled(
        entry_id(entry),
        b"%b.%b.%b.%b" % (f[b"nesting"], f[b"retries"], f[b"generation"], f[b"id"]),
        f[b"queue"].decode(),
        f[b"tenant"],
        f[b"outcome"].decode(),
        int(f[b"epoch"]),
        int(f[b"submitted"]),
        int(f[b"arrived"]),
        int(f[b"admitted"]),
        entry_id(delivered) if delivered else BEGINNING,
        f.get(b"redelivered", b"0") == b"1",
        float(f[b"cost"]),
        int(f[b"priority"]),
        int(f[b"deadline"]),
        float(f[b"started"]),
        float(f[b"finished"]),
    )
