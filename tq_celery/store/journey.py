"""When the tasks that a worker holds passed each step, read for those whose trace is kept."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from tq_celery.store.contract import Token
from tq_celery.store.record import RUN, unpack_record
from tq_celery.store.worker import RedisWorker

__all__ = ["Journey", "journeys"]


class Journey(NamedTuple):
    """Times on the store's clock, ms: when a task came or was due, was admitted, dispatched."""

    arrived: int
    admitted: int
    dispatched: int
    attempts: int


def journeys(store: RedisWorker, tokens: Iterable[Token]) -> dict[Token, Journey]:
    """Return the journeys of deliveries that are not settled yet, as far as they can be read.

    Raises redis-py's errors.
    """
    asked: defaultdict[str, list[Token]] = defaultdict(list)
    for token in tokens:
        asked[token.queue].append(token)
    client: Any = store.client
    found = {}
    for queue, of_queue in asked.items():
        raws = client.hmget(
            store.keys.of_queue("running", queue), [token.entry for token in of_queue]
        )
        for token, raw in zip(of_queue, raws, strict=True):
            journey = _journey(token, raw)
            if journey is not None:
                found[token] = journey
    return found


def _journey(token: Token, raw: bytes | None) -> Journey | None:
    try:
        epoch, _, _, length = RUN.unpack_from(raw or b"")
        record = unpack_record((raw or b"")[RUN.size + length :])
        dispatched = int(token.entry.partition(b"-")[0])
    except (struct.error, ValueError):
        return None
    if epoch != token.epoch or not record.admitted:
        return None
    arrived = record.ms or record.submitted
    return Journey(arrived, record.admitted, dispatched, record.attempts)
