"""Credit: a free slot is credited once, and none is left out."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from tq_celery.scheduler.credit import components, grant, pool_offers, rooms
from tq_celery.store.contract import WorkerAnnouncement


def offers(**capacities: int) -> dict[frozenset[str], int]:
    """``offers(xy=4)``: workers with 4 slots on the queues x and y."""
    return {frozenset(queues): slots for queues, slots in capacities.items()}


def test_workers_with_the_same_queues_are_one_offer() -> None:
    workers = [
        WorkerAnnouncement("one", ("a", "b"), slots=4, ahead=2),
        WorkerAnnouncement("two", ("b", "a"), slots=8, ahead=0),
        WorkerAnnouncement("three", ("c",), slots=1, ahead=0),
        WorkerAnnouncement("unreadable", (), slots=0, ahead=0),
    ]
    assert pool_offers(workers) == {frozenset("ab"): 14, frozenset("c"): 1}


def test_queues_of_the_same_workers_are_one_bundle() -> None:
    (component,) = components(offers(ab=4))
    assert [bundle.queues for bundle in component.bundles] == [("a", "b")]
    assert grant(component, {"a": 1, "b": 1}) == (("a", "b"), 4, 2)
    assert grant(component, {"a": 3, "b": 1}) is None


def test_workers_that_share_no_queue_are_apart() -> None:
    assert [component.queues for component in components(offers(ab=1, c=1, bd=1))] == [
        ("a", "b", "d"),
        ("c",),
    ]


def test_a_slot_shared_by_two_queues_is_credited_once() -> None:
    """Workers on {x, y} and {y, z} with one slot each have room for two, whatever the mix."""
    (component,) = components(offers(xy=1, yz=1))
    assert [bundle.queues for bundle in component.bundles] == [("x",), ("y",), ("z",)]
    assert rooms(component, {}) == [1, 2, 1]
    assert rooms(component, {"y": 1}) == [1, 1, 1]
    assert rooms(component, {"y": 1, "x": 1}) == [0, 0, 0]
    assert grant(component, {"y": 1}) == (("x", "y", "z"), 2, 1)


def test_a_full_bundle_closes_and_the_others_stay_open() -> None:
    (component,) = components(offers(xy=2, yz=5))
    assert rooms(component, {"x": 2}) == [0, 5, 5]
    assert grant(component, {"x": 2}) == (("y", "z"), 5, 5)


def test_a_surplus_takes_nothing_from_other_bundles() -> None:
    """Five of x are in flight and its only worker has left two slots: y and z keep theirs."""
    (component,) = components(offers(xy=2, yz=4))
    assert rooms(component, {"x": 5, "y": 1}) == [0, 3, 3]


def test_no_slots_no_room() -> None:
    (component,) = components(offers(xy=0, yz=0))
    assert grant(component, {}) is None


@st.composite
def overlapping(draw: st.DrawFn) -> tuple[dict[frozenset[str], int], dict[str, int]]:
    queues = "abcde"
    sets = draw(
        st.lists(
            st.frozensets(st.sampled_from(queues), min_size=1, max_size=4),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    capacities = {each: draw(st.integers(0, 5)) for each in sets}
    in_flight = {queue: draw(st.integers(0, 4)) for queue in queues}
    return capacities, in_flight


def fits(capacities: dict[frozenset[str], int], demand: dict[str, int]) -> bool:
    """Hall's condition, by looking at every set of queues."""
    wanted = [queue for queue, count in demand.items() if count]
    return all(
        sum(demand[queue] for queue in chosen)
        <= sum(slots for queues, slots in capacities.items() if queues & set(chosen))
        for size in range(1, len(wanted) + 1)
        for chosen in combinations(wanted, size)
    )


@settings(max_examples=400, deadline=None)
@given(overlapping())
def test_room_is_what_brute_force_finds(
    case: tuple[dict[frozenset[str], int], dict[str, int]],
) -> None:
    capacities, in_flight = case
    if not fits(capacities, in_flight):
        return
    for component in components(capacities):
        for bundle, room in zip(component.bundles, rooms(component, in_flight), strict=True):
            queue = bundle.queues[0]
            more = lambda by: {**in_flight, queue: in_flight[queue] + by}  # noqa: B023, E731
            assert fits(capacities, more(room))
            assert not fits(capacities, more(room + 1))


@settings(max_examples=400, deadline=None)
@given(overlapping(), st.randoms(use_true_random=False))
def test_granted_work_always_fits_and_grants_end_when_nothing_more_does(
    case: tuple[dict[frozenset[str], int], dict[str, int]], random
) -> None:
    """Dispatch any mix a grant allows, until none is left: no slot is used twice or left out."""
    capacities, in_flight = case
    if not fits(capacities, in_flight):
        return
    flying = dict(in_flight)
    for component in components(capacities):
        while granted := grant(component, flying):
            assert granted.room > 0
            for _ in range(random.randint(1, granted.room)):
                flying[random.choice(granted.queues)] += 1
            assert sum(flying[queue] for queue in granted.queues) <= granted.capacity
            assert fits(capacities, flying)
        for queue in component.queues:
            assert not fits(capacities, {**flying, queue: flying[queue] + 1})


@settings(max_examples=200, deadline=None)
@given(overlapping())
def test_a_surplus_closes_only_what_it_must(
    case: tuple[dict[frozenset[str], int], dict[str, int]],
) -> None:
    """With more in flight than fits, room is still what fits beside the part that does."""
    capacities, in_flight = case
    for component in components(capacities):
        for bundle, room in zip(component.bundles, rooms(component, in_flight), strict=True):
            slots = sum(component.capacities[index] for index in bundle.offers)
            assert 0 <= room <= slots
            if room:
                alone = {queue: in_flight[queue] for queue in bundle.queues}
                assert fits(capacities, {**alone, bundle.queues[0]: alone[bundle.queues[0]] + room})
