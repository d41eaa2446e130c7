"""The packed forms in which a task travels between Redis structures.

A **record** is a fixed-width header followed by the task's key. Its first twelve bytes are the
arrival (milliseconds and sequence of the ingress entry, big-endian), so two records with the same
score sort by arrival when Redis compares members byte by byte. Lua reads the same layout with
``struct`` (:data:`RECORD_LUA`); ``tests/store/test_record.py`` compares both sides.

=========  =====  ====================================================================
field      bytes  meaning
=========  =====  ====================================================================
ms, seq    8 + 4  arrival: the ingress entry's id (Redis clock)
cost       8      service expected, IEEE double
priority   1      0..255, higher is more urgent
deadline   8      absolute ms, Redis clock; 2^53 - 1 = none
submitted  8      ms of the submission
admitted   8      ms of the admission; 0 before it
attempts   2      deliveries lost so far
paid       1      1 when the policy has charged this task already
key        rest   ``nesting.retries.generation.id``
=========  =====  ====================================================================
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "COST",
    "DELIVERY",
    "DIGEST",
    "MAX_SCORE",
    "NO_DEADLINE",
    "PAID",
    "PLACE",
    "RECORD",
    "RECORD_LUA",
    "RUN",
    "Record",
    "TaskKey",
    "arrival",
    "arrive_due",
    "pack_delayed",
    "pack_record",
    "replace_admitted",
    "split_place",
    "split_stored",
    "split_taken",
    "unpack_delayed",
    "unpack_record",
]

#: Greatest integer a Redis score holds exactly.
MAX_SCORE = 2**53 - 1
#: The deadline of a task that has none.
NO_DEADLINE = MAX_SCORE
RECORD = struct.Struct(">QIdBQQQHB")
RECORD_LUA = ">I8I4dBI8I8I8HB"
#: An exec entry's single field ``d``: epoch, lost deliveries, then the key.
DELIVERY = struct.Struct(">QH")
#: Arrival prefix of a record.
ARRIVAL = struct.Struct(">QI")
#: Where a record holds its cost, a double.
COST = slice(12, 20)
#: Where a record holds its priority.
PRIORITY = 20
#: Where a record holds its admission.
ADMITTED = slice(37, 45)
#: Where a record holds whether it is paid.
PAID = 47
_NO_ARRIVAL = ARRIVAL.pack(0, 0)
#: Length of the digest that stands before a stored message.
DIGEST = 16
#: What ends a stored message: ms at which it was taken or is due, lengths of queue and tenant.
PLACE = struct.Struct(">QHH")
#: A run record: epoch, generation, rank, length of the tenant; then tenant and task record.
RUN = struct.Struct(">QIdH")
#: A delayed member: urgency byte, lengths of queue and tenant; then queue, tenant, record.
DELAYED = struct.Struct(">BHH")


class TaskKey(NamedTuple):
    """What identifies one task: Celery re-uses the id in ``retry`` and ``replace``."""

    id: str
    nesting: int = 0
    retries: int = 0
    generation: int = 0

    def encode(self) -> bytes:
        """Return ``nesting.retries.generation.id``; ids may contain any character."""
        return f"{self.nesting}.{self.retries}.{self.generation}.{self.id}".encode()

    @classmethod
    def decode(cls, raw: bytes) -> TaskKey:
        """Parse :meth:`encode`; raises ``ValueError`` on anything else."""
        nesting, retries, generation, task_id = raw.decode().split(".", 3)
        return cls(task_id, int(nesting), int(retries), int(generation))


@dataclass(frozen=True, slots=True)
class Record:
    """An unpacked record; see the module's table for units."""

    ms: int
    seq: int
    cost: float
    priority: int
    deadline: int
    submitted: int
    admitted: int
    attempts: int
    paid: int
    key: bytes


def pack_record(record: Record) -> bytes:
    """Return the bytes of ``record``."""
    return (
        RECORD.pack(
            record.ms,
            record.seq,
            record.cost,
            record.priority,
            record.deadline,
            record.submitted,
            record.admitted,
            record.attempts,
            record.paid,
        )
        + record.key
    )


def unpack_record(raw: bytes) -> Record:
    """Return the record in ``raw``; raises ``struct.error`` when it is too short."""
    ms, seq, cost, priority, deadline, submitted, admitted, attempts, paid = RECORD.unpack_from(raw)
    key = raw[RECORD.size :]
    return Record(ms, seq, cost, priority, deadline, submitted, admitted, attempts, paid, key)


def split_stored(value: bytes | None) -> tuple[bytes, bytes | None]:
    """Return digest and message of a value of the ``payload`` hash; see :func:`split_taken`."""
    return split_taken(value)[:2]


def split_taken(value: bytes | None) -> tuple[bytes, bytes | None, int]:
    """Return digest, message, and the ms at which it was taken or is due; empty, None, 0 for none.

    After the message stand queue, tenant and :data:`PLACE`. Bytes of somebody else are returned as
    the message, as far as that can be told.
    """
    if value is None:
        return b"", None, 0
    end, at = len(value), 0
    if end >= DIGEST + PLACE.size:
        at, queue, tenant = PLACE.unpack_from(value, end - PLACE.size)
        end = max(DIGEST, end - PLACE.size - queue - tenant)
    return value[:DIGEST], value[DIGEST:end], at


def split_place(raw: bytes) -> tuple[str, bytes, int]:
    """Return queue, tenant and ms of the end of a value of the ``payload`` hash."""
    at, queue, tenant = PLACE.unpack_from(raw, len(raw) - PLACE.size)
    return raw[:queue].decode(), raw[queue : queue + tenant], at


def arrival(entry_id: bytes) -> bytes:
    """Return the twelve-byte sort prefix of an ingress entry id such as ``b"1700000000000-3"``."""
    ms, _, seq = entry_id.partition(b"-")
    return ARRIVAL.pack(int(ms), int(seq))


def replace_admitted(record: bytes, ms: int) -> bytes:
    """Return ``record`` with ``ms`` as the time of its admission."""
    return record[: ADMITTED.start] + struct.pack(">Q", ms) + record[ADMITTED.stop :]


def arrive_due(record: bytes, due: int) -> bytes:
    """Return the record of a delayed task with the arrival it has once it is due.

    It arrives when it is due, and of those due in one ms the most urgent comes first. Work that
    was given back for a while keeps the arrival it had.
    """
    if record[: ARRIVAL.size] != _NO_ARRIVAL:
        return record
    return ARRIVAL.pack(due, 255 - record[PRIORITY]) + record[ARRIVAL.size :]


def pack_delayed(queue: str, tenant: bytes, record: bytes) -> bytes:
    """Return the delayed set's member: of those due in one ms the most urgent sorts first."""
    name = queue.encode()
    return DELAYED.pack(255 - record[PRIORITY], len(name), len(tenant)) + name + tenant + record


def unpack_delayed(member: bytes) -> tuple[str, bytes, bytes]:
    """Return ``(queue, tenant, record)`` of a member of the delayed set."""
    _, queue_length, tenant_length = DELAYED.unpack_from(member)
    start = DELAYED.size
    middle, end = start + queue_length, start + queue_length + tenant_length
    return member[start:middle].decode(), member[middle:end], member[end:]
