"""Counters against sizes, and the books: accepted = settled by outcome + live by state.

Everything compared here stands in one MULTI, or is a record that was there when it ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tq_celery.states import Outcome
from tq_celery.store.verify.contract import Violation, text
from tq_celery.store.verify.look import Look
from tq_celery.store.verify.records import Settled
from tq_celery.store.verify.tasks import Tasks

__all__ = ["conservation", "counters"]

_STATES = ("submitted", "delayed", "pending", "dispatched")


def counters(look: Look, tasks: Tasks) -> Iterator[Violation]:
    """Yield counters of states and of tenants that differ from what the structures hold."""
    sizes: Counter[str] = Counter()
    for (queue, _), size in look.waiting.items():
        sizes[f"pending:{queue}"] += size
    for name, size in look.sizes.items():
        word, _, queue = name.partition(":")
        if word == "running":
            sizes[f"dispatched:{queue}"] = size
    compared = ["dispatched", *([] if look.unseen else ["pending"])]
    if tasks.at_once:
        foreign = {name for name, _ in tasks.foreign}
        for each in tasks.placed:
            if each.place in ("ingress", "delayed"):
                state = "submitted" if each.place == "ingress" else "delayed"
                sizes[f"{state}:{each.queue}"] += 1
        compared += [w for w, place in _OF.items() if place not in foreign]
        if not look.unseen:
            yield from _tenants(look, tasks)
    else:
        yield from _totals(look)
    for name in sorted(
        _counted(look, compared) | {n for n in sizes if n.split(":")[0] in compared}
    ):
        said, there = look.counters.get(name, 0), sizes[name]
        if said != there:
            yield Violation("counters", name, f"says {said}, and {there} are there")


_OF = {"submitted": "ingress", "delayed": "delayed"}


def _counted(look: Look, words: Iterable[str]) -> set[str]:
    return {name for name in look.counters if name.partition(":")[0] in set(words)}


def _totals(look: Look) -> Iterator[Violation]:
    """Compare sums where the tasks themselves were not read in the same moment."""
    running = sum(n for name, n in look.sizes.items() if name.startswith("running:"))
    totals = {
        "ingress": (_sum(look, "submitted"), look.sizes["ingress"]),
        "delayed": (_sum(look, "delayed"), look.sizes["delayed"]),
        "running": (sum(look.running.values()), running),
        "live": (sum(look.live.values()), sum(_sum(look, word) for word in _STATES)),
    }
    for name, (said, there) in totals.items():
        if said != there:
            yield Violation("counters", name, f"adds up to {said}, and {there} are there")


def _sum(look: Look, word: str) -> int:
    return sum(look.counters[name] for name in _counted(look, [word]))


def _tenants(look: Look, tasks: Tasks) -> Iterator[Violation]:
    live: Counter[bytes] = Counter()
    running: Counter[bytes] = Counter()
    for each in tasks.placed:
        live[each.tenant] += each.place != "draining"
        running[each.tenant] += each.place == "running"
    for word, said, there in (("live", look.live, live), ("running", look.running, running)):
        for tenant in sorted(said.keys() | there.keys()):
            if said.get(tenant, 0) != there[tenant]:
                yield Violation(
                    "counters",
                    f"{word} {text(tenant)}",
                    f"says {said.get(tenant, 0)}, and {there[tenant]} are there",
                )


def conservation(look: Look, settled: Iterable[Settled] | None) -> Iterator[Violation]:
    """Yield queues whose books do not balance, and outcomes without their records.

    ``settled`` is None where the records are not whole.
    """
    counted = look.counters
    queues = {name.partition(":")[2] for name in _counted(look, ["accepted", *_STATES, *Outcome])}
    for queue in sorted(queues):
        accepted = counted.get(f"accepted:{queue}", 0)
        ended = sum(counted.get(f"{outcome}:{queue}", 0) for outcome in Outcome)
        live = sum(counted.get(f"{state}:{queue}", 0) for state in _STATES)
        if accepted != ended + live:
            yield Violation(
                "conservation",
                f"accepted:{queue}",
                f"{accepted} were accepted, {ended} have ended and {live} are live",
            )
    if settled is None:
        return
    records = Counter(f"{each.outcome}:{each.queue}" for each in settled)
    for name in sorted(_counted(look, Outcome) | records.keys()):
        if counted.get(name, 0) != records[name]:
            yield Violation(
                "conservation",
                name,
                f"{counted.get(name, 0)} are counted, and {records[name]} have a record",
            )
