"""What a verification replays: credit, order and shares, from records made by hand and by chance.

Each check is quiet about what a policy really does, and speaks where another one did.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tq_celery.policies.contract import Task
from tq_celery.policies.registry import make_policy
from tq_celery.store.verify.contract import StreamSeen
from tq_celery.store.verify.credit import Flight, credit_limits, over
from tq_celery.store.verify.history import epochs, settled_once
from tq_celery.store.verify.look import Look
from tq_celery.store.verify.order import overtaken
from tq_celery.store.verify.records import BEGINNING, Settled
from tq_celery.store.verify.service import service, service_limits
from tq_celery.store.verify.shares import unequal
from tq_celery.store.verify.waits import FOREVER, Wait


def look(**changed: Any) -> Look:
    """Return a look at a namespace under fair sharing in which nothing stands out."""
    fields: dict[str, Any] = {
        "at": 10_000, "config": {"policy": "wfq", "between": "fair"}, "counters": {},
        "epoch": 9, "fence": 9, "grants": [], "live": {}, "running": {}, "weights": {}, "caps": {},
        "paused_tenants": frozenset(), "paused_queues": frozenset(), "groups": {}, "changes": {},
        "results": StreamSeen(), "dead": StreamSeen(), "sizes": {}, "waiting": {}, "held": {},
        "unseen": False,
    }  # fmt: skip
    return Look(**{**fields, **changed})


# -- credit --------------------------------------------------------------------------------------


def flights(*times: tuple[int, float]) -> list[Flight]:
    return [
        Flight((start, number), end, "q", b"t", f"n{number}")
        for number, (start, end) in enumerate(times)
    ]


@pytest.mark.parametrize(
    ("times", "beyond"),
    [
        ([(0, 10), (5, 10), (10, 20)], []),
        ([(0, 10), (5, 10), (9, 20)], [("n2", 3)]),
        ([(0, FOREVER), (5, 6), (7, FOREVER), (8, FOREVER)], [("n3", 3)]),
        ([(0, 10), (0, 10), (0, 10), (0, 0)], [("n2", 3)]),
        ([(3, 1), (3, 3), (3, 5), (4, 5)], []),
    ],
)
def test_two_places(times: list[tuple[int, float]], beyond: list[tuple[str, int]]) -> None:
    """A place is free in the ms in which it is left; what ended before it began took none."""
    assert [(flight.name, n) for flight, n in over(flights(*times), 2, -1)] == beyond


def test_credit_says_what_it_could_not_compare() -> None:
    several = flights((1, 9))
    assert list(credit_limits(look(counters={"capacity:q": 4}), several)) == []
    (unknown,) = credit_limits(look(), several)
    assert unknown == "credit: 1 groups of queues have no greatest capacity"
    (changed,) = credit_limits(look(counters={"capacity:q": 4}, changes={"caps": 77}), several)
    assert "caps" in changed
    assert "77" in changed
    (without,) = credit_limits(look(config={"between": "none"}), several)
    assert without.startswith("without a policy")


def test_before_a_change_nothing_is_beyond() -> None:
    several = flights((1, 9), (2, 9), (3, 9), (5, 9))
    assert [flight.name for flight, _ in over(several, 2, 3)] == ["n3"]


# -- epochs and repeats --------------------------------------------------------------------------


def settled(name: str, **changed: Any) -> Settled:
    fields: dict[str, Any] = {
        "at": (100, 0), "key": f"0.0.0.{name}".encode(), "queue": "q", "tenant": b"t",
        "outcome": "completed", "epoch": 1, "submitted": 10, "arrived": 10, "admitted": 10,
        "exec": (50, 0), "redelivered": False, "cost": 1.0, "priority": 0, "deadline": 2**53 - 1,
        "started": 50.0, "finished": 60.0,
    }  # fmt: skip
    return Settled(**{**fields, **changed})


def stale(*records: Settled, back: bool = False) -> set[str]:
    return {each.id for each in epochs(look(), records, (), back)}


def test_epochs_of_a_queue_follow_its_entries() -> None:
    first, second = settled("a", exec=(5, 1), epoch=2), settled("b", exec=(5, 2), epoch=1)
    assert stale(first, second) == {"0.0.0.b"}
    assert stale(second._replace(exec=(5, 0)), first) == set()


def test_epochs_of_two_queues_are_compared_by_ms() -> None:
    first = settled("a", exec=(5, 1), epoch=2)
    same, later = (settled("b", exec=(ms, 7), epoch=1, queue="other") for ms in (5, 6))
    assert stale(first, same) == set()
    assert stale(first, later) == {"0.0.0.b"}
    assert stale(first, later, back=True) == set(), "two streams are of two minds about the time"


def test_a_repeat_within_the_done_memory() -> None:
    first = settled("a", at=(1_000, 0))
    assert [each.id for each in settled_once([first, first], 500)] == ["0.0.0.a"]
    for submitted, wrong in ((1_499, 1), (1_500, 0)):
        again = first._replace(submitted=submitted, at=(3_000, 0))
        assert len(list(settled_once([first, again], 500))) == wrong


@pytest.mark.parametrize(("done_max", "wrong"), [(8, ["0.0.0.a"]), (6, []), (0, [])])
def test_a_key_that_others_have_pushed_out_of_the_memory_may_come_again(
    done_max: int, wrong: list[str]
) -> None:
    """Seen to fail: only the time was looked at, and an id that was used again was called wrong."""
    first = settled("a", at=(1_000, 0))
    others = [settled(name, at=(1_100, n)) for n, name in enumerate("bc")]
    again = first._replace(submitted=1_200, at=(1_300, 0))
    found = list(settled_once([first, *others, again], 3_600_000, done_max))
    assert [each.id for each in found] == wrong
    assert all("accepted again 200 ms after" in each.message for each in found)


def test_one_acceptance_is_settled_once_however_small_the_memory() -> None:
    first = settled("a", at=(1_000, 0))
    assert [each.id for each in settled_once([first, first], 0, 0)] == ["0.0.0.a"]


# -- order and shares ----------------------------------------------------------------------------


def simulated(
    choose: Callable[[dict[bytes, list[Wait]], dict[bytes, float]], bytes], seed: int
) -> tuple[list[Wait], dict[bytes, float]]:
    """Let tenants offer more than is dispatched, for two seconds; ``choose`` says who is next."""
    chance = random.Random(seed)
    weights = {b"t%d" % n: chance.choice((0.5, 1.0, 3.0)) for n in range(4)}
    waiting: defaultdict[bytes, list[Wait]] = defaultdict(list)
    tags: dict[bytes, float] = {}
    ended: list[Wait] = []
    for ms in range(2_000):
        for tenant in weights:
            if chance.random() < 0.06:
                for _ in range(chance.choice((1, 1, 5, 40))):
                    number = len(ended) + sum(map(len, waiting.values()))
                    task = Task(ms, chance.choice((0.2, 1.0, 7.0)), chance.randrange(3), 2**53 - 1)
                    waiting[tenant].append(
                        Wait("q", tenant, f"n{number}", ms, ms, BEGINNING, FOREVER, True, task)
                    )
        for number in range(chance.randrange(3)):
            backlogged = {tenant: tasks for tenant, tasks in waiting.items() if tasks}
            if backlogged:
                tenant = choose(backlogged, tags)
                wait = waiting[tenant].pop(0)
                ended.append(wait._replace(exec=(ms, number), end=ms))
    return [*ended, *(wait for tasks in waiting.values() for wait in tasks)], weights


def self_clocked(weights: dict[bytes, float]) -> Callable[..., bytes]:
    """Choose as ``policies/wfq.py`` says: lowest finish first; tags hold starts and, as '', V."""

    def choose(backlogged: dict[bytes, list[Wait]], tags: dict[bytes, float]) -> bytes:
        clock = tags.setdefault(b"", 0.0)
        for tenant in [each for each in tags if each and each not in backlogged]:
            del tags[tenant]
        finish = {
            tenant: tags.setdefault(tenant, clock) + tasks[0].task.cost / weights[tenant]
            for tenant, tasks in backlogged.items()
        }
        chosen = min(finish, key=lambda tenant: (finish[tenant], tenant))
        tags[chosen] = finish[chosen]
        tags[b""] = max(clock, finish[chosen])
        return chosen

    return choose


def by_arrival(backlogged: dict[bytes, list[Wait]], tags: dict[bytes, float]) -> bytes:
    return min(backlogged, key=lambda tenant: (backlogged[tenant][0].admitted, tenant))


def weights_of(seed: int) -> dict[bytes, float]:
    return simulated(by_arrival, seed)[1]


@pytest.mark.parametrize("seed", range(5))
def test_fair_shares_are_within_the_bound_and_first_come_is_not(seed: int) -> None:
    weights = weights_of(seed)
    seen, checked = look(weights=weights), Counter[str]()
    fair, _ = simulated(self_clocked(weights), seed)
    assert len(fair) > 500
    assert list(unequal(seen, fair, 1, checked)) == []
    assert checked["service"] == 6
    first_come, _ = simulated(by_arrival, seed)
    assert list(unequal(seen, first_come, 1, checked))


@pytest.mark.parametrize("seed", range(5))
def test_first_come_is_in_order_and_fair_shares_are_not(seed: int) -> None:
    fifo = make_policy("fifo")
    first_come, weights = simulated(by_arrival, seed)
    assert list(overtaken(look(), first_come, fifo, 1)) == []
    fair, _ = simulated(self_clocked(weights), seed)
    assert list(overtaken(look(), fair, fifo, 1))
    wfq = make_policy("wfq")
    assert list(overtaken(look(), fair, wfq, 1)) == [], "of each tenant the oldest comes first"


def long(tenant: bytes, times: Iterable[int], **changed: Any) -> list[Wait]:
    """Return tasks of a tenant that all came at 0 and were dispatched at such times."""
    task = Task(0, 1.0, 0, 2**53 - 1)
    return [
        Wait("q", tenant, f"{tenant.decode()}{ms}", 0, 1, (ms, 0), ms, True, task)._replace(
            **changed
        )
        for ms in times
    ]


#: One tenant is served twice as much as the other while both wait.
UNFAIR = [*long(b"a", range(100, 300, 10)), *long(b"b", range(300, 500, 10))]


def gaps(seen: Look, waits: list[Wait] = UNFAIR) -> list[str]:
    return [each.id for each in unequal(seen, waits, 5, Counter())]


@pytest.mark.parametrize(("turns", "wrong"), [(2, []), (3, ["a and b"])])
def test_the_bound_is_the_sum_of_the_largest_costs(turns: int, wrong: list[str]) -> None:
    """Of tasks of cost 1: two turns of each in a row are fair, three are not."""
    first, then = range(100, 100 + 10 * turns, 10), range(200, 200 + 10 * turns, 10)
    assert gaps(look(), [*long(b"a", [*first, 500]), *long(b"b", [*then, 510])]) == wrong


def test_what_the_shares_leave_out() -> None:
    assert gaps(look()) == ["a and b"]
    assert gaps(look(weights={b"a": 100.0, b"b": 1.0})) == []
    assert gaps(look(caps={b"b": 1})) == []
    assert gaps(look(paused_tenants=frozenset({b"a"}))) == []
    assert gaps(look(groups={"q": "q", "r": "q"})) == ["a and b"], "r never had a task"
    both = [*UNFAIR, *long(b"a", [50], queue="r")]
    assert gaps(look(groups={"q": "q", "r": "q"}), both) == []


@pytest.mark.parametrize("rule", ["policy", "groups", "virtual", "weights", "pauses", "caps"])
def test_rules_hold_from_their_last_change_on(rule: str) -> None:
    assert gaps(look(changes={rule: 0})) == ["a and b"]
    assert gaps(look(changes={rule: 400})) == []
    (limit,) = service_limits(look(changes={rule: 400}), UNFAIR)
    assert rule in limit


@pytest.mark.parametrize("rule", ["policy", "groups", "virtual", "weights", "pauses", "caps"])
def test_what_had_been_admitted_before_a_new_ranking_is_waited_for(rule: str) -> None:
    """All came at 1 and the rule changed at 50: a pause or a cap acts at once, ranks do not."""
    at_once = rule in ("pauses", "caps")
    assert gaps(look(changes={rule: 50})) == (["a and b"] if at_once else [])


def test_what_came_back_widens_the_bound() -> None:
    """Its first dispatch may have been at any time, so its cost may have been served to either."""
    some = [*UNFAIR, *long(b"b", [600] * 30, known=False)]
    assert gaps(look(), some) == []
    assert any("30 tasks" in limit for limit in service_limits(look(), some))


def test_who_loses_a_task_may_lose_its_arrears() -> None:
    removed = long(b"b", [200], exec=BEGINNING)
    assert gaps(look(), [*UNFAIR, *removed]) == ["a and b"]
    cut = [long(b"b", [ms], exec=BEGINNING)[0] for ms in range(100, 500, 10)]
    assert gaps(look(), [*UNFAIR, *cut]) == []


@pytest.mark.parametrize(
    ("config", "limit"),
    [({"policy": "none", "between": "none"}, "without a policy"), ({}, "without a policy")],
)
def test_without_a_policy_there_is_nothing_to_compare(config: dict[str, str], limit: str) -> None:
    seen = look(config=config)
    assert list(service(seen, UNFAIR, 5, Counter())) == []
    assert any(limit in each for each in service_limits(seen, UNFAIR))


def test_order_leaves_out_who_is_held_back() -> None:
    waits = [*long(b"a", [900]), *long(b"b", [500], admitted=100, task=Task(50, 1.0, 0, 9))]
    fifo = make_policy("fifo")

    def passed_over(seen: Look) -> list[str]:
        return [each.id for each in overtaken(seen, waits, fifo, 5)]

    assert passed_over(look()) == ["a900"]
    assert passed_over(look(caps={b"a": 1})) == []
    assert passed_over(look(paused_tenants=frozenset({b"a"}))) == []
    assert passed_over(look(changes={"policy": 600})) == []
    assert passed_over(look(changes={"weights": 600})) == ["a900"]
    waits[0] = waits[0]._replace(known=False)
    assert passed_over(look()) == []
