"""One look at a namespace: what is counted, how large everything is, and every live task.

What can be read in one MULTI is: then nothing moves between two numbers that are compared. Which
keys there are has to be asked just before it, so a tenant that had no task a moment ago may be
missed; ``unseen`` tells. Above :data:`AT_ONCE` live tasks only the sizes are read in the MULTI, and
the tasks themselves page by page after it (``tasks.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tq_celery.errors import StoreError
from tq_celery.store.inspect import reading
from tq_celery.store.keys import GROUP, Keys, quoted
from tq_celery.store.verify.contract import StreamSeen, text
from tq_celery.store.verify.records import entry_id

__all__ = [
    "AT_ONCE",
    "Known",
    "Look",
    "Pair",
    "Reply",
    "discover",
    "is_small",
    "ms_of",
    "multi",
    "read_sizes",
]

#: Most live tasks that are read in one MULTI: some ten milliseconds of server time.
AT_ONCE = 20_000
#: Most deliveries of one queue in the hands of workers that are looked at.
_HELD = 100_000
#: Pairs of queue and tenant that are asked for although no key of theirs was found.
_PAIRS = 10_000
#: Characters of a value that is no number which are shown.
_SHOWN = 80
#: Keys in one step of the search for the namespace's keys.
_STEP = 1_000

#: A queue and a tenant that has, or had, a set of waiting tasks.
Pair = tuple[str, bytes]
Reply = Any
N = TypeVar("N", int, float)


@dataclass(slots=True)
class Known:
    """Names of what may be there: gathered over all looks, so that nothing is forgotten."""

    queues: set[str] = field(default_factory=set)
    pairs: set[Pair] = field(default_factory=set)


@dataclass(slots=True)
class Look:
    """The namespace at one moment: ``at`` ms of the server's clock. Ids of streams are text."""

    at: int
    config: Mapping[str, str]
    counters: Mapping[str, int]
    epoch: int
    fence: int
    grants: list[tuple[str, int]]
    live: Mapping[bytes, int]
    running: Mapping[bytes, int]
    weights: Mapping[bytes, float]
    caps: Mapping[bytes, int]
    paused_tenants: frozenset[bytes]
    paused_queues: frozenset[str]
    groups: Mapping[str, str]
    #: What an operator or the leader changed last, and when (ms).
    changes: Mapping[str, int]
    results: StreamSeen
    dead: StreamSeen
    #: Sizes: of ``ingress``, ``delayed``, ``draining`` and ``payload``; of a queue's ``exec``,
    #: ``running`` and ``obituary`` as ``running:<queue>``.
    sizes: Mapping[str, int]
    #: Waiting tasks of a queue and tenant, those between two rankings included.
    waiting: Mapping[Pair, int]
    #: Entries that consumers have read and not settled, by queue.
    held: Mapping[str, list[str]]
    #: Whether a tenant with live tasks was not asked for, and may have some that wait.
    unseen: bool
    #: Cap on what the namespace runs, 0 for none.
    max_running: int = 0

    def group_of(self, queue: str) -> str:
        """Return the group of queues that shares workers with ``queue``."""
        return self.groups.get(queue, queue)


def multi(client: Any, commands: list[tuple[Any, ...]]) -> list[Reply]:
    """Run commands in one MULTI; one that fails for a key that is not there answers ``None``."""
    pipe = client.pipeline(transaction=True)
    for command in commands:
        options = {"parse_detail": True} if command[0] == "XPENDING" else {}
        pipe.execute_command(*command, **options)
    with reading("verify"):
        replies = pipe.execute(raise_on_error=False)
        for command, reply in zip(commands, replies, strict=True):
            if isinstance(reply, Exception) and not _absent(reply):
                if "WRONGTYPE" in str(reply):
                    raise StoreError("verify", f"{command[1]}: {reply}") from reply
                raise reply
    return [None if isinstance(reply, Exception) else reply for reply in replies]


def _absent(error: Exception) -> bool:
    return "NOGROUP" in str(error) or "no such key" in str(error)


def discover(client: Any, keys: Keys, known: Known) -> None:
    """Add the queues and the pairs of queue and tenant that have a key now."""
    prefix = keys.prefix.encode()
    with reading("verify"):
        known.queues |= set(_names(client.smembers(keys.name("queues"))))
        for key in client.scan_iter(match=quoted(prefix) + b"*", count=_STEP):
            word, _, rest = key[len(prefix) :].partition(b":")
            if word in (b"exec", b"running", b"obituary") and rest:
                known.queues |= set(_names([rest]))
            elif word in (b"pending", b"outdated"):
                length, _, names = rest.partition(b":")
                size = int(length) if length.isdigit() else 0
                known.pairs |= {(queue, names[size + 1 :]) for queue in _names([names[:size]])}
        tenants = client.hkeys(keys.name("live"))
    if len(tenants) * len(known.queues) <= _PAIRS:
        known.pairs |= {(queue, tenant) for queue in known.queues for tenant in tenants}


def _names(raw: Iterable[bytes]) -> Iterator[str]:
    """Yield names of queues; what is not text is not the library's."""
    for each in raw:
        with suppress(UnicodeDecodeError):
            yield each.decode()


def is_small(client: Any, keys: Keys, most: int) -> bool:
    """Tell whether there are few enough live tasks to be read in one MULTI."""
    commands = [("HLEN", keys.name("payload")), ("XLEN", keys.name("ingress"))]
    return sum(multi(client, [*commands, ("ZCARD", keys.name("delayed"))])) <= most


def read_sizes(
    client: Any, keys: Keys, known: Known, more: list[tuple[Any, ...]]
) -> tuple[Look, list[Reply]]:
    """Read everything but the tasks in one MULTI, and ``more`` commands in the same one.

    Raises StoreError also where something else than the library's stands in a key.
    """
    name, of_queue = keys.name, keys.of_queue
    queues, pairs = sorted(known.queues), sorted(known.pairs)
    plain: list[tuple[Any, ...]] = [
        ("TIME",),
        *(("HGETALL", name(word)) for word in _HASHES),
        ("GET", name("epoch")),
        ("GET", name("fence")),
        ("XRANGE", name("leadership"), "-", "+"),
        ("SMEMBERS", name("paused_tenants")),
        ("SMEMBERS", name("paused_queues")),
        ("XINFO STREAM", name("results")),
        ("XINFO STREAM", name("dead")),
        ("XLEN", name("ingress")),
        ("ZCARD", name("delayed")),
        ("HLEN", name("draining")),
        ("HLEN", name("payload")),
    ]
    per_queue: list[tuple[Any, ...]] = []
    for queue in queues:
        per_queue += [
            ("XLEN", of_queue("exec", queue)),
            ("HLEN", of_queue("running", queue)),
            ("XLEN", of_queue("obituary", queue)),
            ("XPENDING", of_queue("exec", queue), GROUP, "-", "+", _HELD),
        ]
    words = ("pending", "outdated")
    per_pair = [("ZCARD", keys.of_tenant(word, *pair)) for pair in pairs for word in words]
    replies = multi(client, [*plain, *per_queue, *per_pair, *more])
    time, *rest = replies[: len(plain)]
    hashes, rest = rest[: len(_HASHES)], rest[len(_HASHES) :]
    config, counters, live, running, weights, caps, groups, changes = hashes
    config = {text(k): v.decode(errors="replace") for k, v in config.items()}
    epoch, fence, leadership, tenants, paused, results, dead, *counts = rest

    def number(word: str, raw: bytes | None, kind: Callable[[bytes], N]) -> N:
        try:
            return kind(raw or b"0")
        except ValueError as error:
            seen = text(raw or b"")[:_SHOWN]
            raise StoreError("verify", f"{name(word)} is not this library's: {seen}") from error

    counted = {text(field): number("counters", n, int) for field, n in counters.items()}
    sizes = dict(zip(("ingress", "delayed", "draining", "payload"), counts, strict=True))
    held: dict[str, list[str]] = {}
    at = len(plain)
    for queue in queues:
        sizes[f"exec:{queue}"], sizes[f"running:{queue}"] = replies[at : at + 2]
        sizes[f"obituary:{queue}"] = replies[at + 2]
        held[queue] = [each["message_id"].decode() for each in replies[at + 3] or ()]
        at += 4
    cards = replies[at : at + len(per_pair)]
    tenants_asked = {tenant for _, tenant in pairs}
    look = Look(
        at=int(time[0]) * 1000 + int(time[1]) // 1000,
        config=config,
        max_running=number("config", config.get("max_running", "").encode(), int),
        counters=counted,
        epoch=number("epoch", epoch, int),
        fence=number("fence", fence, int),
        grants=[
            (entry.decode(), number("leadership", fields.get(b"epoch"), int))
            for entry, fields in leadership
            if fields.get(b"k") == b"granted"
        ],
        live={tenant: number("live", n, int) for tenant, n in live.items()},
        running={tenant: number("running", n, int) for tenant, n in running.items()},
        weights={tenant: number("weights", n, _weight) for tenant, n in weights.items()},
        caps={tenant: number("caps", n, int) for tenant, n in caps.items()},
        paused_tenants=frozenset(tenants),
        paused_queues=frozenset(text(raw) for raw in paused),
        groups={text(k): text(v) for k, v in groups.items()},
        changes={text(k): number("changes", v, int) for k, v in changes.items()},
        results=_stream(results, counted.get("dropped:results", 0)),
        dead=_stream(dead, counted.get("dropped:dead", 0)),
        sizes=sizes,
        waiting={
            pair: sum(cards[2 * i : 2 * i + 2])
            for i, pair in enumerate(pairs)
            if any(cards[2 * i : 2 * i + 2])
        },
        held=held,
        unseen=not live.keys() <= tenants_asked,
    )
    return look, replies[at + len(per_pair) :]


_HASHES = (
    "config", "counters", "live", "running", "weights", "caps", "groups", "changes",
)  # fmt: skip


def _weight(raw: bytes) -> float:
    weight = float(raw)
    if not 0 < weight < float("inf"):
        raise ValueError(weight)
    return weight


def _stream(info: Mapping[str, Any] | None, dropped: int) -> StreamSeen:
    if info is None:
        return StreamSeen(dropped=dropped)
    first, last = info.get("first-entry"), info.get("last-entry")
    return StreamSeen(
        length=int(info["length"]),
        added=int(info.get("entries-added", info["length"])),
        dropped=dropped,
        first=text(first[0]) if first else "",
        last=text(last[0]) if last else "",
    )


def ms_of(entry: str) -> int:
    """Return the ms of an entry id, 0 for an empty one."""
    return entry_id(entry.encode())[0] if entry else 0
