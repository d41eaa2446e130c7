"""What leaves a store is in the pure policy's order, ties included, for random workloads.

The ideal order is computed here with nothing but the policy and the formula of fair sharing: every
choice looks at everything that waits. No structure of a store is involved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.contract.lab import Lab, MemoryLab, RedisLab, wipe
from tests.store.contract.steps import NO_LIMITS, admit_all, task
from tq_celery.policies.contract import Policy, Task
from tq_celery.policies.registry import make_policy
from tq_celery.settings import Settings
from tq_celery.store.redis_store import RedisStore

#: Policy, order within a tenant, ageing: some ms a level, so that arrivals weigh against levels.
POLICIES = [
    ("fifo", "arrival", None),
    ("priority", "arrival", None),
    ("priority", "arrival", 0.001),
    ("edf", "arrival", None),
    ("wfq", "arrival", None),
    ("wfq", "priority", None),
    ("wfq", "priority", 0.002),
    ("wfq", "deadline", None),
]
QUEUES = ("a", "b")


class Work(NamedTuple):
    """One task of a workload; ``gap`` ms after the one before, so that 0 makes ties."""

    tenant: bytes
    queue: str
    cost: float
    priority: int
    deadline: int | None
    gap: int


works = st.builds(
    Work,
    tenant=st.sampled_from([b"t1", b"t2", b"t3", b"\xff:\x00"]),
    queue=st.sampled_from(QUEUES),
    cost=st.sampled_from([1e-6, 0.1, 1.0, 1.0, 2.5, 1e9]),
    priority=st.sampled_from([0, 0, 9, 255]),
    deadline=st.sampled_from([None, None, 50, 51]),
    gap=st.sampled_from([0, 0, 1, 7]),
)
#: Rounds: some tasks arrive, then some are dispatched.
rounds = st.lists(
    st.tuples(st.lists(works, max_size=12), st.integers(0, 10)), min_size=1, max_size=6
)
weights = st.dictionaries(
    st.sampled_from([b"t1", b"t2", b"t3"]), st.sampled_from([1e-3, 0.5, 3.0, 1e6]), max_size=3
)


class Ideal:
    """All waiting tasks in one list, and the four lines of the formula."""

    def __init__(self, policy: Policy, shares: dict[bytes, float], group: bool) -> None:
        self.policy = policy
        self.shares, self.group = shares, group
        self.waiting: list[tuple[str, Work, tuple[int, int], float]] = []
        self.V: dict[str, float] = {}
        self.start: dict[tuple[str, bytes], float] = {}

    def arrive(self, name: str, work: Work, at: tuple[int, int]) -> None:
        rank = self.policy.rank(Task(at[0], work.cost, work.priority, work.deadline or 2**53 - 1))
        self.start.setdefault(self._who(work), self.V.get(self._group(work), 0.0))
        self.waiting.append((name, work, at, rank))

    def _group(self, work: Work) -> str:
        return "all" if self.group else work.queue

    def _who(self, work: Work) -> tuple[str, bytes]:
        return self._group(work), work.tenant

    def _finish(self, work: Work) -> float:
        return self.start[self._who(work)] + work.cost / self.shares.get(work.tenant, 1.0)

    def dispatch(self, queues: tuple[str, ...]) -> tuple[str, str] | None:
        """Take the best head; returns its name and queue."""
        heads: dict[tuple[str, bytes], tuple[Any, ...]] = {}
        for each in self.waiting:
            if each[1].queue in queues:
                where = each[1].queue, each[1].tenant
                if where not in heads or (each[3], each[2]) < (heads[where][3], heads[where][2]):
                    heads[where] = each
        if not heads:
            return None
        fair = self.policy.between == "fair"
        best = min(
            heads.values(), key=lambda each: (self._finish(each[1]) if fair else each[3], each[2])
        )
        name, work, _, _ = best
        self.waiting.remove(best)
        finish, group = self._finish(work), self._group(work)
        self.V[group] = max(self.V.get(group, 0.0), finish)
        self.start[self._who(work)] = finish
        if not any(self._who(other[1]) == self._who(work) for other in self.waiting):
            del self.start[self._who(work)]
        return name, work.queue


def compare(lab: Lab, ideal: Ideal, load: list[tuple[list[Work], int]], group: bool) -> None:
    """Take both through the rounds; the order out must be the same, task by task."""
    store, number, now = lab.store, 0, 1_000
    out: dict[str, list[str]] = {queue: [] for queue in QUEUES}
    calls = [QUEUES] if group else [("a",), ("b",)]
    if group:
        store.regroup(1, dict.fromkeys(QUEUES, "a"))
    for tenant, weight in ideal.shares.items():
        store.set_weight(tenant, weight)
    for arriving, limit in [*load, ([], 1_000)]:
        given_arrivals = []
        for work in arriving:
            now += work.gap
            number += 1
            name = f"n{number}"
            store.submit(
                task(
                    name,
                    work.tenant,
                    work.queue,
                    cost=work.cost,
                    priority=work.priority,
                    deadline=work.deadline,
                ),
                NO_LIMITS,
            )
            given_arrivals.append((now, number))
            ideal.arrive(name, work, (now, number))
        admit_all(store, 1, given_arrivals)
        for queues in calls:
            room = limit
            while room > 0:
                expected = list(islice(iter(partial(ideal.dispatch, queues), None), min(room, 3)))
                if not expected:
                    break
                room -= len(expected)
                assert store.dispatch(1, queues, 10**6, len(expected)).count == len(expected)
                for name, queue in expected:
                    out[queue].append(name)
                # Two streams have no common order, so each is compared after every three tasks.
                assert {queue: lab.names(queue) for queue in QUEUES} == out


@pytest.fixture(params=["memory", "valkey", "redis"])
def fresh(request: pytest.FixtureRequest) -> Iterator[Callable[..., Lab]]:
    """Make an empty namespace for each example."""
    if request.param == "memory":
        yield MemoryLab
        return
    server = request.getfixturevalue(f"{request.param}_server")
    store = RedisStore.open(Settings(url=server.url, namespace="order"))
    with server.client() as client:

        def make(**seed: Any) -> Lab:
            wipe(client, store.keys)
            return RedisLab(store, client, **seed)

        yield make
        wipe(client, store.keys)
    store.close()


@pytest.mark.parametrize(("name", "within", "ageing"), POLICIES)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(load=rounds, shares=weights)
def test_one_queue_at_a_time(
    fresh: Callable[..., Lab],
    name: str,
    within: str,
    ageing: float | None,
    load: list[tuple[list[Work], int]],
    shares: dict[bytes, float],
) -> None:
    """Queues of separate workers are separate orders, and separate shares."""
    lab = fresh(policy=name, order_within=within, ageing=ageing)
    policy = make_policy(name, within, ageing)
    compare(lab, Ideal(policy, shares, group=False), load, group=False)


@pytest.mark.parametrize(("name", "within", "ageing"), POLICIES)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(load=rounds, shares=weights)
def test_queues_of_the_same_workers(
    fresh: Callable[..., Lab],
    name: str,
    within: str,
    ageing: float | None,
    load: list[tuple[list[Work], int]],
    shares: dict[bytes, float],
) -> None:
    """Queues of the same workers are one order, and a tenant has one share of them."""
    lab = fresh(policy=name, order_within=within, ageing=ageing)
    policy = make_policy(name, within, ageing)
    compare(lab, Ideal(policy, shares, group=True), load, group=True)
