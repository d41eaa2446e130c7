"""Find keys that a test left behind although nothing will ever remove them."""

from __future__ import annotations

import redis

from tq_celery.store.keys import Keys, quoted

#: What a namespace keeps by design, bounded by tenants, queues or a cap (see the table of keys).
KEPT = frozenset(
    "config epoch fence leadership wake queues groups cursor virtual weights caps paused_tenants "
    "paused_queues changes counters service accounted done:new done:old done:since results dead "
    "produced scan".split()
)


def leaked(client: redis.Redis, namespace: str) -> list[str]:
    """Return descriptions of the namespace's keys without TTL that no rule keeps alive."""
    prefix = Keys(namespace).prefix.encode()
    found = []
    for key in client.scan_iter(match=quoted(prefix) + b"*", count=1000):
        word = key.removeprefix(prefix).decode("utf-8", "backslashreplace")
        if word in KEPT or client.pttl(key) >= 0:
            continue
        kind = client.type(key)
        kind = kind.decode() if isinstance(kind, bytes) else kind
        if kind == "stream" and client.xlen(key) == 0:
            continue  # an empty stream stays for its consumer group
        found.append(f"{word} ({kind})")
    return sorted(found)
