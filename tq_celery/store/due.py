"""Reading a member of the delayed set: ours, or bytes that somebody else put there."""

from __future__ import annotations

import struct

from tq_celery.store.contract import DueTask
from tq_celery.store.record import RECORD, arrive_due, unpack_delayed

__all__ = ["read_due"]


def read_due(member: bytes, due: int) -> DueTask:
    """Return the task of ``member``, arriving at ``due`` ms; ``reason`` is set if it has none."""
    try:
        queue, tenant, record = unpack_delayed(member)
        if len(record) <= RECORD.size or not queue:
            raise ValueError("record is too short")
    except (ValueError, struct.error) as error:
        reason = f"unreadable delayed member: {type(error).__name__}: {error}"
        return DueTask(member, due, "", b"", b"", reason)
    return DueTask(member, due, queue, tenant, arrive_due(record, due))
