r"""How many tasks may be dispatched to which queues: slots in, room out. Pure.

**Offers.** Workers announce how many scheduled tasks they take at a time and which queues they
consume. Workers with the same set of queues are one *offer* with the sum of their slots.

**Bundles.** Queues that exactly the same offers consume are interchangeable: one *bundle*. Where
worker sets do not overlap partially a component has one offer and one bundle, and its room is the
offer's capacity minus what is in flight.

**Overlap.** With workers A on {x, y} and B on {y, z} a slot of A may serve x or y, never both: it
must be credited once. What is in flight is a demand ``n`` per bundle, and it fits when it can be
routed through the bipartite graph *bundle -> offer* with the offers' capacities, that is
(Hall, Gale) when for every set ``S`` of bundles ::

    sum of n over S  <=  capacity of all offers that serve some queue of S

The *slack* of ``S`` is the difference of the two sides. A bundle can take

    room(b) = min slack(S) over all S that contain b

more tasks, which is how far ``b`` alone can be augmented once the demand has been routed by a
maximal flow. When several bundles are open, any mix of ``min room`` tasks over them fits, because
every set that constrains the mix contains one of them. So the open bundles of a component are
dispatched *together* for ``min room`` tasks, the policy choosing between their heads, and the room
is computed again; a bundle closes when its room is 0.

More may be in flight than fits, when workers have left. The surplus stays outside the flow: it
closes the bundles it lies on and takes nothing from the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tq_celery.store.contract import WorkerAnnouncement

__all__ = ["Bundle", "Component", "Grant", "components", "grant", "pool_offers", "rooms"]

Offers = Mapping[frozenset[str], int]


@dataclass(frozen=True, slots=True)
class Bundle:
    """Queues that are consumed by the same ``offers`` (indexes into the component's)."""

    queues: tuple[str, ...]
    offers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Component:
    """Queues connected by shared workers; ``capacities`` has the slots of each offer."""

    bundles: tuple[Bundle, ...]
    capacities: tuple[int, ...]

    @property
    def queues(self) -> tuple[str, ...]:
        """All queues of the component, sorted."""
        return tuple(sorted(queue for bundle in self.bundles for queue in bundle.queues))


class Grant(NamedTuple):
    """Dispatch to ``queues`` up to ``room`` more tasks, and only while under ``capacity``."""

    queues: tuple[str, ...]
    capacity: int
    room: int


def pool_offers(workers: Iterable[WorkerAnnouncement]) -> dict[frozenset[str], int]:
    """Add up what the workers of each queue set offer."""
    offers: dict[frozenset[str], int] = {}
    for worker in workers:
        if worker.queues:
            queues = frozenset(worker.queues)
            offers[queues] = offers.get(queues, 0) + max(0, worker.slots + worker.ahead)
    return offers


def components(offers: Offers) -> list[Component]:
    """Split offers into connected components, in the order of their smallest queue."""
    remaining = sorted(offers, key=lambda queues: sorted(queues))
    found: list[Component] = []
    while remaining:
        members = [remaining.pop(0)]
        reached = set(members[0])
        while joined := [queues for queues in remaining if queues & reached]:
            for queues in joined:
                remaining.remove(queues)
                members.append(queues)
                reached |= queues
        found.append(_component(members, [offers[queues] for queues in members]))
    return sorted(found, key=lambda component: component.queues)


def _component(members: Sequence[frozenset[str]], capacities: Sequence[int]) -> Component:
    by_offers: dict[tuple[int, ...], list[str]] = {}
    for queue in sorted(frozenset().union(*members)):
        served_by = tuple(index for index, queues in enumerate(members) if queue in queues)
        by_offers.setdefault(served_by, []).append(queue)
    bundles = tuple(Bundle(tuple(queues), served_by) for served_by, queues in by_offers.items())
    return Component(bundles, tuple(capacities))


def grant(component: Component, in_flight: Mapping[str, int]) -> Grant | None:
    """Return what may be dispatched next, ``None`` when no bundle has room."""
    room = rooms(component, in_flight)
    open_bundles = [bundle for bundle, free in zip(component.bundles, room, strict=True) if free]
    if not open_bundles:
        return None
    queues = tuple(queue for bundle in open_bundles for queue in bundle.queues)
    together = min(free for free in room if free)
    return Grant(queues, sum(in_flight.get(queue, 0) for queue in queues) + together, together)


def rooms(component: Component, in_flight: Mapping[str, int]) -> list[int]:
    """Return for each bundle how many tasks it could take if no other bundle took any."""
    demand = [
        sum(in_flight.get(queue, 0) for queue in bundle.queues) for bundle in component.bundles
    ]
    flow = _Flow(component)
    surplus = [flow.push(index, wanted) < wanted for index, wanted in enumerate(demand)]
    everything = sum(component.capacities)
    return [
        0 if over else flow.copy().push(index, everything) for index, over in enumerate(surplus)
    ]


class _Flow:
    """What is routed from bundles to offers. Augmenting never lowers a bundle's own total."""

    def __init__(self, component: Component) -> None:
        self._serves = [bundle.offers for bundle in component.bundles]
        self._free = list(component.capacities)
        self._routed = [dict.fromkeys(bundle.offers, 0) for bundle in component.bundles]

    def copy(self) -> _Flow:
        """Return an independent flow with the same routes."""
        twin = object.__new__(_Flow)
        twin._serves = self._serves
        twin._free = list(self._free)
        twin._routed = [dict(routes) for routes in self._routed]
        return twin

    def push(self, bundle: int, wanted: int) -> int:
        """Route up to ``wanted`` more tasks of ``bundle``, re-routing others; return how many."""
        pushed = 0
        while pushed < wanted:
            path = self._path(bundle)
            if path is None:
                break
            amount = min(wanted - pushed, self._free[path[-1][1]])
            for previous, step in pairwise(path):
                # ``step`` gives up its place on the offer that ``previous`` takes over.
                amount = min(amount, self._routed[step[0]][previous[1]])
            for position, (index, offer) in enumerate(path):
                self._routed[index][offer] += amount
                if position:
                    self._routed[index][path[position - 1][1]] -= amount
            self._free[path[-1][1]] -= amount
            pushed += amount
        return pushed

    def _path(self, bundle: int) -> list[tuple[int, int]] | None:
        """Return the shortest chain of (bundle, offer it takes) that ends at a free offer."""
        came_from: dict[int, tuple[int, int] | None] = {}  # offer -> (bundle, offer before)
        holder: dict[int, int] = {}
        frontier: list[tuple[int, int | None]] = [(bundle, None)]
        seen = {bundle}
        while frontier:
            following: list[tuple[int, int | None]] = []
            for index, before in frontier:
                for offer in self._serves[index]:
                    if offer in holder:
                        continue
                    holder[offer] = index
                    came_from[offer] = None if before is None else (holder[before], before)
                    if self._free[offer] > 0:
                        return self._unwind(offer, holder, came_from)
                    for other, routes in enumerate(self._routed):
                        if other not in seen and routes.get(offer, 0) > 0:
                            seen.add(other)
                            following.append((other, offer))
            frontier = following
        return None

    @staticmethod
    def _unwind(
        offer: int, holder: dict[int, int], came_from: dict[int, tuple[int, int] | None]
    ) -> list[tuple[int, int]]:
        path = [(holder[offer], offer)]
        while (before := came_from[path[-1][1]]) is not None:
            path.append(before)
        path.reverse()
        return path
