"""Every live task is in exactly one place, and nothing is in a place that is not alive.

A task is alive from its acceptance to its settlement: its message stands in ``payload``, and its
key in one of ``ingress``, ``delayed``, ``pending``, ``outdated`` and ``running``. After that the
message may stay for an obituary, or until a drained task has been published (``draining``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from tq_celery.store.verify.contract import Violation, text
from tq_celery.store.verify.records import Settled
from tq_celery.store.verify.tasks import LIVE_PLACES, Placed, Tasks

__all__ = ["Doubt", "doubts_of_places", "unwatched"]

#: A violation, and what it was seen by: to be looked at again by name.
Doubt = tuple[Violation, tuple[Placed, ...]]


def doubts_of_places(
    tasks: Tasks, done: set[bytes], last_of: Mapping[bytes, Settled]
) -> Iterator[Doubt]:
    """Yield what looks wrong; ``done`` are keys in the done memory, ``last_of`` newest records."""
    places: defaultdict[bytes, list[Placed]] = defaultdict(list)
    for each in tasks.placed:
        places[each.key].append(each)
    for key, several in places.items():
        first, name = several[0], text(key)
        if len(several) > 1:
            where = " and ".join(_where(each) for each in several)
            yield _doubt(name, f"is in {len(several)} places: {where}", *several[:2])
        if key not in tasks.payload:
            yield _doubt(name, f"is in {_where(first)} and has no message", first)
        if first.place not in LIVE_PLACES:
            continue
        record = last_of.get(key)
        if key in done or key in tasks.mourned:
            yield _doubt(name, f"is in {_where(first)} although it was settled", first)
        elif record is not None and record.at[0] >= first.record.submitted:
            yield _doubt(
                name,
                f"is in {_where(first)} although it was settled as {record.outcome}", first,
            )  # fmt: skip
    for key in tasks.payload - places.keys() - tasks.mourned:
        yield _doubt(text(key), "has a message and is in no place")


def unwatched(tasks: Tasks, held: Mapping[str, list[str]]) -> Iterator[Violation]:
    """Yield deliveries that are only half there, and waiting tenants that nothing stands for.

    Only for tasks that were read at once.
    """
    runs: defaultdict[str, dict[bytes, Placed]] = defaultdict(dict)
    waiting: set[tuple[str, bytes]] = set()
    for each in tasks.placed:
        if each.place == "running":
            runs[each.queue][each.member] = each
        elif each.place in ("pending", "outdated"):
            waiting.add((each.queue, each.tenant))
    for queue, entries in tasks.exec.items():
        for entry in sorted(entries - runs[queue].keys()):
            yield _broken(text(entry), f"is an entry of exec:{queue} without a run record")
        for entry in sorted(runs[queue].keys() - entries):
            name = runs[queue][entry].name
            yield _broken(name, f"has a run record of {text(entry)}, which exec:{queue} lacks")
    for queue, ids in held.items():
        for each_id in ids:
            if each_id.encode() not in runs[queue]:
                yield _broken(each_id, f"is held by a worker of {queue} without a run record")
    for queue, tenant in sorted(waiting):
        if tenant not in tasks.competing.get(queue, ()):
            yield _broken(
                text(tenant),
                f"has tasks waiting on {queue} and is in none of heads, gated, stale and rerank",
            )


def _where(each: Placed) -> str:
    if each.place in ("ingress", "delayed", "draining"):
        return each.place
    return f"{each.place}:{each.queue}"


def _broken(name: str, message: str) -> Violation:
    return Violation("one_place", name, message)


def _doubt(name: str, message: str, *seen: Placed) -> Doubt:
    return _broken(name, message), seen
