"""A namespace's books: counters, result records, and what must be empty when it is at rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from redis import ResponseError

from tq_celery.states import Outcome
from tq_celery.store.keys import GROUP, Keys, quoted
from tq_celery.store.verify import verify

__all__ = ["LIVE", "broken", "counters", "left_over", "result_entries", "result_records", "settled"]

#: Counters of live tasks; what a worker holds counts as dispatched.
LIVE = ("submitted", "delayed", "pending", "dispatched")
_PAGE = 5_000


def counters(client: Any, keys: Keys) -> Counter[str]:
    """Return the conservation counters, summed over the queues."""
    found: Counter[str] = Counter()
    for field, count in client.hgetall(keys.name("counters")).items():
        found[field.decode().split(":", 1)[0]] += int(count)
    return found


def settled(counted: Counter[str]) -> int:
    """Return how many tasks have reached an outcome."""
    return sum(counted[outcome] for outcome in Outcome)


def result_records(client: Any, keys: Keys) -> Iterator[dict[str, bytes]]:
    """Yield every result record, the oldest first."""
    for _, record in result_entries(client, keys):
        yield record


def result_entries(client: Any, keys: Keys) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Yield (ms at which the settling script wrote it, result record), the oldest first."""
    after = "-"
    while True:
        page = client.xrange(keys.name("results"), min=after, count=_PAGE)
        for entry, fields in page:
            at = int(entry.partition(b"-")[0])
            yield at, {name.decode(): value for name, value in fields.items()}
        if len(page) < _PAGE:
            return
        after = "(" + page[-1][0].decode()


def left_over(client: Any, keys: Keys) -> dict[str, int]:
    """Return the sizes of what is not empty although it must be when nothing is under way."""
    name, of_queue = keys.name, keys.of_queue
    sizes = {
        "ingress": client.xlen(name("ingress")),
        "delayed": client.zcard(name("delayed")),
        **{word: client.hlen(name(word)) for word in ("payload", "ids", "live", "draining")},
        "running tenants": client.hlen(name("running")),
    }
    for queue in (raw.decode() for raw in client.smembers(name("queues"))):
        for word in ("exec", "obituary"):
            sizes[f"{word} {queue}"] = client.xlen(of_queue(word, queue))
        for word in ("running", "superseded"):
            sizes[f"{word} {queue}"] = client.hlen(of_queue(word, queue))
        for word in ("heads", "stale"):
            sizes[f"{word} {queue}"] = client.zcard(of_queue(word, queue))
        for word in ("gated", "rerank"):
            sizes[f"{word} {queue}"] = client.scard(of_queue(word, queue))
        with suppress(ResponseError):  # no group, so nobody holds anything
            sizes[f"held {queue}"] = client.xpending(of_queue("exec", queue), GROUP)["pending"]
    counted = counters(client, keys)
    sizes |= {f"counter {word}": counted[word] for word in LIVE}
    for pattern in (b"pending:*", b"outdated:*"):
        for key in client.scan_iter(match=quoted(keys.prefix.encode()) + pattern, count=1000):
            sizes[repr(key)] = client.zcard(key)
    return {what: size for what, size in sizes.items() if size}


def broken(client: Any, keys: Keys) -> list[str]:
    """Return the promises that ``tq verify`` finds broken, in words, each with what breaks it."""
    found = verify(client, keys).violations
    return [f"{each.promise}: {each.id}: {each.message}" for each in found]
