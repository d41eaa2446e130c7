"""Removes a whole namespace; for tests, which make one each."""

from __future__ import annotations

from typing import Any

import redis

from tq_celery.store.inspect import reading
from tq_celery.store.keys import Keys, quoted

__all__ = ["wipe"]

#: Keys taken away at a time.
CHUNK = 500


def wipe(client: redis.Redis, keys: Keys) -> None:
    """Remove every key of the namespace, in bounded steps; raises StoreError.

    What is written meanwhile may stay.
    """
    pattern = quoted(keys.prefix.encode()) + b"*"
    with reading("wipe"):
        found: list[Any] = list(client.scan_iter(match=pattern, count=1000))
        for first in range(0, len(found), CHUNK):
            client.unlink(*found[first : first + CHUNK])
