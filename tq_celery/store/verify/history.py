"""Epochs never go back, no task is settled twice, and a dead letter stands for each dead task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tq_celery.states import Outcome
from tq_celery.store.verify.contract import StreamSeen, Violation
from tq_celery.store.verify.look import Look
from tq_celery.store.verify.records import BEGINNING, EntryId, Settled, entry_id
from tq_celery.store.verify.tasks import Placed

__all__ = ["ENDLESS", "epochs", "settled_once", "trimmed"]

#: A done memory that forgets no key for the number of those that came after it.
ENDLESS = 2**62


def trimmed(look: Look, names: Mapping[str, str]) -> Iterator[Violation]:
    """Yield streams that are not whole; ``names`` has the Redis keys of results and dead."""
    ends = sum(look.counters.get(f"{o}:{q}", 0) for o in Outcome for q in _queues(look))
    for word, seen, expected in (
        ("results", look.results, ends),
        ("dead", look.dead, 0),
    ):
        gone = _gone(word, seen, expected)
        if gone:
            yield Violation("horizon", names[word], gone)


def _queues(look: Look) -> set[str]:
    return {name.partition(":")[2] for name in look.counters if name.startswith("accepted:")}


def _gone(word: str, seen: StreamSeen, expected: int) -> str:
    if seen.dropped:
        return f"was capped: {seen.dropped} entries are gone, and with them what they tell"
    if word == "results" and seen.length < max(seen.added, expected):
        return f"has {seen.length} of {max(seen.added, expected)} entries: the rest was removed"
    return ""


def epochs(
    look: Look, settled: Iterable[Settled], placed: Iterable[Placed], clock_was_stepped: bool
) -> Iterator[Violation]:
    """Yield deliveries under an epoch below one that was dispatched before, and wrong counters.

    Within a queue the order of exec entries is exact. Between queues their ms are compared, unless
    the clock is known to have been stepped.
    """
    runs: defaultdict[str, list[tuple[EntryId, int, str]]] = defaultdict(list)
    for record in settled:
        if record.exec != BEGINNING:
            runs[record.queue].append((record.exec, record.epoch, record.name))
    for each in placed:
        if each.place == "running":
            runs[each.queue].append((entry_id(each.member), each.epoch, each.name))
    stale: set[str] = set()
    highest = 0
    for queue, deliveries in sorted(runs.items()):
        above = 0
        for _, epoch, name in sorted(deliveries):
            if epoch < above and name not in stale:
                stale.add(name)
                yield _wrong(name, f"was dispatched to {queue} under epoch {epoch}, after {above}")
            above = max(above, epoch)
        highest = max(highest, above)
    if not clock_was_stepped:
        yield from _between(runs, stale)
    yield from _granted(look.grants)
    if look.fence < highest:
        yield _wrong("fence", f"is {look.fence}, and epoch {highest} has dispatched")
    if look.epoch < look.fence:
        yield _wrong("epoch", f"is {look.epoch}, and the fence is at {look.fence}")


def _between(
    runs: Mapping[str, Sequence[tuple[EntryId, int, str]]], stale: set[str]
) -> Iterator[Violation]:
    every = sorted((e[0], epoch, name) for each in runs.values() for e, epoch, name in each)
    above = earlier = 0
    ms_before = -1
    for ms, epoch, name in every:
        if ms > ms_before:
            above, ms_before = max(above, earlier), ms
        if epoch < above and name not in stale:
            yield _wrong(name, f"was dispatched under epoch {epoch}, after {above} elsewhere")
        earlier = max(earlier, epoch)


def _granted(grants: Iterable[tuple[str, int]]) -> Iterator[Violation]:
    above = 0
    for entry, epoch in grants:
        if epoch <= above:
            yield _wrong(entry, f"granted epoch {epoch}, after {above}")
        above = max(above, epoch)


def settled_once(
    settled: Iterable[Settled], done_memory: int, done_max: int = ENDLESS
) -> Iterator[Violation]:
    """Yield keys with two records that the done memory should have prevented.

    A key that it has forgotten may be accepted anew: its second record then tells of a submission
    ``done_memory`` ms after the first settlement, or after half of ``done_max`` further ones.
    """
    last: dict[bytes, tuple[int, Settled]] = {}
    told: set[bytes] = set()
    for place, record in enumerate(settled):
        if record.key in last and record.key not in told:
            earlier, before = last[record.key]
            apart = record.submitted - before.at[0]
            message = f"was settled as {before.outcome} and as {record.outcome}"
            if apart <= 0:
                told.add(record.key)
                yield Violation("settled_once", record.name, message)
            elif apart < done_memory and 2 * (place - earlier) < done_max:
                told.add(record.key)
                message += f", accepted again {apart} ms after its first end"
                yield Violation("settled_once", record.name, message)
        last[record.key] = (place, record)


def _wrong(name: str, message: str) -> Violation:
    return Violation("epochs", name, message)
