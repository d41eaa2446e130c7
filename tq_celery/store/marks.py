"""Asking about marks: which of the deliveries a worker has fetched were revoked meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tq_celery.store.contract import Token
from tq_celery.store.keys import Keys
from tq_celery.store.stamps import stamp_mark, stamps_of

__all__ = ["revoked_among"]


def revoked_among(
    client: Any,
    keys: Keys,
    deliveries: Sequence[tuple[Token, bytes]],
    payloads: Sequence[bytes | None],
) -> list[bool]:
    """Tell for each (token, key) whether its id or one of its stamps is marked.

    A mark counts when it lasted beyond the dispatch of the task, by the server's clock.
    """
    stamps = [[stamp_mark(*stamp) for stamp in stamps_of(payload)] for payload in payloads]
    flat = [mark for of_one in stamps for mark in of_one]
    pipe = client.pipeline(transaction=False)
    pipe.execute_command("ZMSCORE", keys.name("revoked"), *(_id(key) for _, key in deliveries))
    if flat:
        pipe.execute_command("ZMSCORE", keys.name("revoked_stamps"), *flat)
    by_id, *rest = pipe.execute()
    by_stamp = iter(rest[0] if rest else ())
    found = []
    for (token, _), own, of_one in zip(deliveries, by_id, stamps, strict=True):
        ends = [float(end) for end in (own, *(next(by_stamp) for _ in of_one)) if end is not None]
        found.append(max(ends, default=0.0) > int(token.entry.partition(b"-")[0]))
    return found


def _id(key: bytes) -> bytes:
    """Return the task id in a key, whatever its bytes."""
    return key.split(b".", 3)[-1]
