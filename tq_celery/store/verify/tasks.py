"""Every live task of a namespace with its place: read at once, or page by page when there are many.

Read page by page, tasks move on between two pages: one may be met twice, or not at all. What looks
wrong then is asked for again by name, in one MULTI (``confirm.py``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from redis import exceptions

from tq_celery.store.inspect import reading
from tq_celery.store.keys import Keys
from tq_celery.store.record import RUN, Record, unpack_delayed, unpack_record
from tq_celery.store.verify.contract import text
from tq_celery.store.verify.look import Known, Pair, Reply
from tq_celery.store.verify.records import entry_id

__all__ = [
    "LIVE_PLACES",
    "Placed",
    "Tasks",
    "read_pages",
    "running_keys",
    "task_commands",
    "unpack_tasks",
]

#: Where a task is until it is settled.
LIVE_PLACES = ("ingress", "delayed", "pending", "outdated", "running")
_PAGE = 2_000
#: An entry of ``draining``: due ms, then the task as in the delayed set.
_DUE = struct.Struct(">Q")

Command = tuple[Any, ...]


class Placed(NamedTuple):
    """One task in one place; ``member`` is what it is called there.

    ``epoch`` is that of its delivery, 0 without one.
    """

    place: str
    queue: str
    tenant: bytes
    key: bytes
    member: bytes
    record: Record
    epoch: int = 0

    @property
    def name(self) -> str:
        """The key as text."""
        return text(self.key)


@dataclass(slots=True)
class Tasks:
    """The tasks of one look. ``at_once`` tells whether they were read in its MULTI."""

    at_once: bool
    placed: list[Placed] = field(default_factory=list)
    payload: set[bytes] = field(default_factory=set)
    #: Ended tasks whose obituary is still to be written.
    mourned: set[bytes] = field(default_factory=set)
    #: Entries of a queue's exec stream.
    exec: dict[str, set[bytes]] = field(default_factory=dict)
    #: Tenants of a queue that a head, a cap, a pause or a re-ranking stands for.
    competing: dict[str, set[bytes]] = field(default_factory=dict)
    #: Structure and entry of what is no task.
    foreign: list[tuple[str, str]] = field(default_factory=list)


def task_commands(keys: Keys, known: Known) -> list[Command]:
    """Return the commands whose replies :func:`unpack_tasks` reads, in its order."""
    name, of_queue = keys.name, keys.of_queue
    commands: list[Command] = [
        ("HKEYS", name("payload")),
        ("HGETALL", name("draining")),
        ("XRANGE", name("ingress"), "-", "+"),
        ("ZRANGE", name("delayed"), 0, -1),
    ]
    for pair in sorted(known.pairs):
        commands += [
            ("ZRANGE", keys.of_tenant(word, *pair), 0, -1) for word in ("pending", "outdated")
        ]
    for queue in sorted(known.queues):
        commands += [
            ("HGETALL", of_queue("running", queue)),
            ("XRANGE", of_queue("exec", queue), "-", "+"),
            ("XRANGE", of_queue("obituary", queue), "-", "+"),
            ("ZRANGE", of_queue("heads", queue), 0, -1),
            ("ZRANGE", of_queue("stale", queue), 0, -1),
            ("SMEMBERS", of_queue("gated", queue)),
            ("SMEMBERS", of_queue("rerank", queue)),
        ]
    return commands


def unpack_tasks(known: Known, replies: Iterable[Reply], at_once: bool) -> Tasks:
    """Return the tasks of the replies to :func:`task_commands`."""
    tasks, answers = Tasks(at_once), iter(replies)
    tasks.payload = set(next(answers))
    for key, raw in next(answers).items():
        _add_delayed(tasks, "draining", raw[_DUE.size :], key)
    for entry, fields in next(answers):
        _add_delayed(tasks, "ingress", fields.get(b"d", b""), entry)
    for member in next(answers):
        _add_delayed(tasks, "delayed", member, member)
    for pair in sorted(known.pairs):
        for word in ("pending", "outdated"):
            _add_waiting(tasks, word, pair, next(answers))
    for queue in sorted(known.queues):
        _add_running(tasks, queue, next(answers))
        tasks.exec[queue] = {entry for entry, _ in next(answers)}
        tasks.mourned |= {fields[b"k"] for _, fields in next(answers) if b"k" in fields}
        heads, stale, gated, rerank = (next(answers) for _ in range(4))
        tasks.competing[queue] = {*(each[12:] for each in (*heads, *stale)), *gated, *rerank}
    return tasks


def _add_delayed(tasks: Tasks, place: str, raw: bytes, member: bytes) -> None:
    try:
        queue, tenant, record = unpack_delayed(raw)
        task = unpack_record(record)
    except (struct.error, UnicodeDecodeError):
        tasks.foreign.append((place, text(member)))
        return
    tasks.placed.append(Placed(place, queue, tenant, task.key, member, task))


def _add_waiting(tasks: Tasks, word: str, pair: Pair, members: Iterable[bytes]) -> None:
    for member in members:
        try:
            task = unpack_record(member)
        except struct.error:
            tasks.foreign.append((f"{word}:{pair[0]}", text(member)))
            continue
        tasks.placed.append(Placed(word, *pair, task.key, member, task))


def _add_running(tasks: Tasks, queue: str, runs: Mapping[bytes, bytes]) -> None:
    for entry, raw in runs.items():
        try:
            epoch, _, _, length = RUN.unpack_from(raw)
            tenant = raw[RUN.size : RUN.size + length]
            task = unpack_record(raw[RUN.size + length :])
            entry_id(entry)
        except (struct.error, ValueError):
            tasks.foreign.append((f"running:{queue}", text(entry)))
            continue
        tasks.placed.append(Placed("running", queue, tenant, task.key, entry, task, epoch))


def running_keys(client: Any, keys: Keys, known: Known) -> set[bytes]:
    """Return the keys of all deliveries."""
    tasks, queues = Tasks(False), sorted(known.queues)
    commands = [("HGETALL", keys.of_queue("running", queue)) for queue in queues]
    for queue, runs in zip(queues, read_pages(client, commands), strict=True):
        _add_running(tasks, queue, runs)
    return {each.key for each in tasks.placed}


def read_pages(client: Any, commands: Iterable[Command]) -> Iterator[Reply]:
    """Yield the reply to each command, read in pages of bounded size."""
    for command in commands:
        word, key = command[:2]
        with reading("verify"):
            if word == "XRANGE":
                yield list(_entries(client, key))
            elif word == "ZRANGE":
                yield [member for member, _ in client.zscan_iter(key, count=_PAGE)]
            elif word == "SMEMBERS":
                yield list(client.sscan_iter(key, count=_PAGE))
            elif word == "HKEYS":
                yield list(_fields(client, key))
            else:
                yield dict(client.hscan_iter(key, count=_PAGE))


def _entries(client: Any, key: Any) -> Iterator[tuple[bytes, Mapping[bytes, bytes]]]:
    after = "-"
    while page := client.xrange(key, min=after, count=_PAGE):
        yield from page
        after = "(" + page[-1][0].decode()


def _fields(client: Any, key: Any) -> Iterator[bytes]:
    try:
        yield from client.hscan_iter(key, count=_PAGE, no_values=True)
    except exceptions.ResponseError:  # an older server sends the values as well
        yield from (name for name, _ in client.hscan_iter(key, count=_PAGE))
