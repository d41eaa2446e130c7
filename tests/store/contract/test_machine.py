"""Both stores through the same random life of a namespace, compared after every step.

The in-process store says in plain Python what each script must do; a server that ends in another
state, answers differently, or whose counters differ from a full scan of its keys, is wrong.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.store.contract.lab import Lab, MemoryLab, RedisLab, wipe
from tests.store.contract.operator_rules import OperatorRules
from tests.store.contract.steps import (
    NO_LIMITS,
    admit_all,
    announce,
    complete,
    promote_all,
    rerank_all,
    task,
)
from tests.store.contract.stopping_rules import (
    QUEUES,
    StoppingRules,
    name_of,
    numbers,
    queues,
    some_queues,
    tenants,
)
from tests.store.contract.view import differences
from tq_celery.errors import DuplicateTaskError, FencedError
from tq_celery.settings import Settings
from tq_celery.states import Outcome
from tq_celery.store.contract import Return, Token
from tq_celery.store.record import ARRIVAL, RECORD, TaskKey
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.verify import verify

WORKERS = ("w1", "w2")
BUDGET = 2

workers = st.sampled_from(WORKERS)


class Life(StoppingRules, OperatorRules):
    """Everything that producers, leaders, workers and operators may do, in any order."""

    def __init__(self, server: Any) -> None:
        super().__init__()
        store = RedisStore.open(Settings(url=server.url, namespace="life"))
        self.client = server.client()
        wipe(self.client, store.keys)
        self.memory = MemoryLab(policy="fifo")
        self.redis = RedisLab(store, self.client, policy="fifo")
        self.labs: tuple[Lab, ...] = (self.memory, self.redis)
        self.names = 0
        self.arrivals = 0
        self.old: list[tuple[Token, Token]] = []

    def teardown(self) -> None:
        found = verify(self.client, self.redis.keys, pause=0.0)
        wipe(self.client, self.redis.keys)
        self.client.close()
        self.redis.store.close()
        assert found.passed, found.violations

    def both(self, act: Any) -> Any:
        """Do the same to both stores; their answers must be equal."""
        mine, theirs = (_answer(act, lab) for lab in self.labs)
        assert mine == theirs
        return mine

    def each(self, act: Any) -> tuple[Any, Any]:
        """Do the same to both stores; the answers differ in ids."""
        return act(self.memory), act(self.redis)

    @property
    def epoch(self) -> int:
        return max(self.memory.store.ns.fence, 1)

    @initialize(policy=st.sampled_from(["fifo", "priority", "edf", "wfq", "none"]))
    def begin(self, policy: str) -> None:
        self.both(lambda lab: lab.store.set_policy(policy))
        self.both(lambda lab: lab.store.elect("s1", 60_000).epoch)

    # -- producers -----------------------------------------------------------------------------

    @rule(
        queue=queues,
        tenant=tenants,
        cost=st.sampled_from([0.1, 1.0, 3.0, 1e-6, 1e9]),
        priority=st.sampled_from([0, 5, 255]),
        deadline=st.sampled_from([None, 5, 77, 2**53 - 1]),
        delay=st.sampled_from([None, None, None, 60_000]),
        count=st.integers(1, 4),
    )
    def submit(
        self,
        queue: str,
        tenant: bytes,
        cost: float,
        priority: int,
        deadline: int | None,
        delay: int | None,
        count: int,
    ) -> None:
        for _ in range(count):
            self.names += 1
            made = task(
                name_of(self.names),
                tenant,
                queue,
                cost=cost,
                priority=priority,
                deadline=deadline,
                delay=delay,
            )
            self.both(lambda lab, made=made: lab.store.submit(made, NO_LIMITS).status)

    @rule(number=numbers, other=st.booleans())
    def submit_again(self, number: int, other: bool) -> None:
        """A blind retry, or another message under the same key."""
        name = name_of(number % (self.names + 1))
        made = task(name, digest=b"another message." if other else task(name).digest)
        if any(
            made.key.encode() in known
            for known in (self.memory.store.ns.payload, self.memory.view().done)
        ):
            self.both(lambda lab: lab.store.submit(made, NO_LIMITS).status)

    @precondition(lambda self: any(self.memory.store.ns.running.values()))
    @rule(number=numbers, outcome=st.sampled_from([Outcome.RETRIED, Outcome.REPLACED]))
    def submit_retry(self, number: int, outcome: Outcome) -> None:
        """A retry of a task that runs, or of one that ran."""
        pair = self._pick(number, stale=True)
        if pair is None:
            return
        run = self.memory.store.ns.running[pair[0].queue].get(pair[0].entry)
        raw = run.record[48:] if run else b"0.7.0.gone"
        key = TaskKey.decode(raw)
        child = key._replace(retries=key.retries + 1)
        for lab, token in zip(self.labs, pair, strict=True):
            made = task("child", b"x", pair[0].queue, key=child, parent=token, supersedes=outcome)
            status = lab.store.submit(made, NO_LIMITS).status
            assert status in ("accepted", "repeat", "stale")

    # -- the leader ----------------------------------------------------------------------------

    @rule(count=st.integers(2, 6), tenant=tenants, queue=queues, cost=st.sampled_from([1.0, 7.0]))
    def flood(self, count: int, tenant: bytes, queue: str, cost: float) -> None:
        self.submit(queue, tenant, cost, 5, None, None, count)
        self.admit(2)

    @rule(ties=st.integers(1, 3))
    def admit(self, ties: int) -> None:
        start = self.arrivals
        self.arrivals += len(self.memory.store.ns.ingress)
        given = [(1_000 + i // ties, i) for i in range(start, self.arrivals)]
        self.both(lambda lab: admit_all(lab.store, self.epoch, given))

    @rule()
    def promote(self) -> None:
        self.each(lambda lab: lab.ripen())
        self.both(lambda lab: promote_all(lab.store, self.epoch, _numbered))

    @rule(asked=some_queues, capacity=st.integers(0, 8), batch=st.integers(1, 5))
    def dispatch(self, asked: list[str], capacity: int, batch: int) -> None:
        group = self.memory.store.index.group(asked[0])
        asked = [queue for queue in asked if self.memory.store.index.group(queue) == group]
        self.both(lambda lab: _dispatched(lab.store.dispatch(self.epoch, asked, capacity, batch)))

    @rule(number=st.integers(0, 3))
    def new_leader(self, number: int) -> None:
        self.each(lambda lab: lab.end_lease())
        epoch = self.both(lambda lab: lab.store.elect(f"s{number}", 60_000).epoch)
        self.both(lambda lab: lab.store.dispatch(epoch, ["a"], 0, 1).count)

    @rule(back=st.integers(1, 3))
    def deposed_leader(self, back: int) -> None:
        """Whatever a superseded leader tries is refused and changes nothing."""
        old = self.epoch - back
        if old < 1:
            return
        before = self.redis.view()
        self.both(lambda lab: lab.store.admit(old, 1, []))
        self.both(lambda lab: lab.store.promote(old, 1, []))
        self.both(lambda lab: lab.store.dispatch(old, QUEUES, 100, 10))
        self.both(lambda lab: lab.store.rerank(old, 1, "a", b"x", []))
        self.both(lambda lab: lab.store.regroup(old, {"a": "b"}))
        self.both(lambda lab: lab.store.account(old, 4, 2, 1_000, {b"x": "shown"}))
        assert differences(before, self.redis.view()) == {}

    @rule(groups=st.dictionaries(queues, queues, min_size=1))
    def regroup(self, groups: dict[str, str]) -> None:
        self.both(lambda lab: lab.store.regroup(self.epoch, groups))
        self.each(lambda lab: rerank_all(lab.store, self.epoch))

    # -- workers -------------------------------------------------------------------------------

    @rule(worker=workers, rooms=st.dictionaries(queues, st.integers(1, 3), min_size=1))
    def read(self, worker: str, rooms: dict[str, int]) -> None:
        rooms = {queue: rooms[queue] for queue in sorted(rooms)}
        self.each(lambda lab: lab.store.renew(announce(worker, *QUEUES), 600_000))
        self.both(
            lambda lab: [
                (d.key, d.attempts, d.payload, d.digest, d.token.epoch, d.token.queue, d.revoked)
                for d in lab.store.read(worker, rooms, 0)
            ]
        )

    def rank_returned(self) -> None:
        """Work that was dispatched under an earlier policy has to be ranked anew."""
        self.both(lambda lab: bool(rerank_all(lab.store, self.epoch)))

    def _pick(self, number: int, stale: bool = False) -> tuple[Token, Token] | None:
        """Return the tokens of a delivery in both stores, perhaps of one that has ended."""
        pairs = [
            pair
            for queue in QUEUES
            for pair in zip(*(lab.tokens(queue) for lab in self.labs), strict=True)
        ]
        self.old = [*self.old, *pairs][-50:]
        if stale:
            pairs = pairs + self.old
        return pairs[number % len(pairs)] if pairs else None

    @precondition(lambda self: any(self.memory.store.ns.running.values()))
    @rule(
        numbers=st.lists(numbers, min_size=1, max_size=5),
        outcome=st.sampled_from([Outcome.COMPLETED, Outcome.FAILED, Outcome.RETRIED]),
        twice=st.booleans(),
        ran=st.sampled_from([None, 0.0, -3.0, 0.0006, 27.0, 1e6]),
    )
    def complete(
        self, numbers: list[int], outcome: Outcome, twice: bool, ran: float | None
    ) -> None:
        pairs = [pair for number in numbers if (pair := self._pick(number, stale=True))]
        for _ in range(1 + twice):
            answers = [
                lab.store.complete("w1", [complete(pair[i], outcome, ran) for pair in pairs])
                for i, lab in enumerate(self.labs)
            ]
            assert answers[0] == answers[1]

    @precondition(lambda self: any(self.memory.store.ns.running.values()))
    @rule(number=numbers, counted=st.booleans(), delay=st.sampled_from([0, 0, 500_000]))
    def give_back(self, number: int, counted: bool, delay: int) -> None:
        pair = self._pick(number, stale=True)
        if pair is not None:
            answers = [
                lab.store.give_back([Return(token, counted, delay)], BUDGET)
                for lab, token in zip(self.labs, pair, strict=True)
            ]
            assert answers[0] == answers[1]
            self.rank_returned()

    @precondition(lambda self: any(self.memory.store.ns.running.values()))
    @rule(number=numbers)
    def bury(self, number: int) -> None:
        pair = self._pick(number, stale=True)
        if pair is not None:
            answers = [
                lab.store.bury("w1", token, "a reason")
                for lab, token in zip(self.labs, pair, strict=True)
            ]
            assert answers[0] == answers[1]

    @precondition(lambda self: any(self.memory.store.ns.running.values()))
    @rule(worker=workers, counted=st.booleans(), spread=st.sampled_from((0, 5, 1000)))
    def lose(self, worker: str, counted: bool, spread: int) -> None:
        self.each(lambda lab: lab.lapse(worker))
        self.both(lambda lab: lab.store.reclaim(worker, BUDGET, counted, 500, spread))
        self.rank_returned()

    @precondition(lambda self: any(self.memory.store.ns.running.values()))
    @rule(worker=workers)
    def withdraw(self, worker: str) -> None:
        self.both(lambda lab: lab.store.withdraw(worker))
        self.rank_returned()

    @precondition(lambda self: any(self.memory.store.ns.running.values()))
    @rule(queue=queues)
    def orphans(self, queue: str) -> None:
        self.both(lambda lab: lab.store.reclaim_orphans(queue, -1_000, 500))
        self.rank_returned()

    @precondition(lambda self: any(self.memory.store.ns.obituary.values()))
    @rule(worker=workers, write=st.booleans())
    def mourn(self, worker: str, write: bool) -> None:
        found = self.each(lambda lab: _mourned(lab, worker))
        assert sorted(o.key for o in found[0]) == sorted(o.key for o in found[1])
        if write:
            for lab, obituaries in zip(self.labs, found, strict=True):
                lab.store.close_obituaries(obituaries)
        else:
            # a worker that is lost with them: the next one gets them
            self.each(lambda lab: lab.lapse(worker))
            self.both(lambda lab: lab.store.reclaim(worker, BUDGET, False, 500))
            self.rank_returned()

    # -- operators -----------------------------------------------------------------------------

    @rule(
        policy=st.sampled_from(["fifo", "priority", "edf", "wfq"]),
        within=st.sampled_from(["arrival", "priority", "deadline"]),
        ageing=st.sampled_from([None, 0.001, 30.0]),
    )
    def switch(self, policy: str, within: str, ageing: float | None) -> None:
        self.both(lambda lab: lab.store.set_policy(policy, within, ageing))
        self.each(lambda lab: rerank_all(lab.store, self.epoch))

    @precondition(lambda self: self.memory.store.ns.dead)
    @rule(number=numbers)
    def requeue(self, number: int) -> None:
        mine, theirs = self.each(lambda lab: lab.dead_entries())
        index = number % len(mine)
        answers = (self.memory.store.requeue(mine[index]), self.redis.store.requeue(theirs[index]))
        assert answers[0] == answers[1]

    # -- what always holds ---------------------------------------------------------------------

    @invariant()
    def same(self) -> None:
        mine, theirs = self.memory.view(), self.redis.view()
        for view in (mine, theirs):
            # in which order a purge finds what it removes is nobody's business
            view.results.sort()
            view.ends.sort(key=repr)
            view.delivered.sort(key=repr)
            view.obituary = {queue: sorted(each) for queue, each in view.obituary.items()}
        found = differences(mine, theirs)
        assert not found, found
        theirs.assert_conserved()
        self.assert_served(theirs)


def _numbered(record: bytes) -> bytes:
    """Let tasks that are due in one ms arrive in the order of their names, on both clocks."""
    ms, _ = ARRIVAL.unpack_from(record)
    if ms != 1:
        return record
    number = int(TaskKey.decode(record[RECORD.size :]).id.lstrip("n"))
    return ARRIVAL.pack(500, number) + record[ARRIVAL.size :]


def live(server: Any, **bounds: Any) -> None:
    """Run lives on a server; a machine is made by a function, which the types do not foresee."""
    make: Any = lambda: Life(server)  # noqa: E731
    chosen = settings(deadline=None, suppress_health_check=list(HealthCheck), **bounds)
    run_state_machine_as_test(make, settings=chosen)


def _answer(act: Any, lab: Lab) -> Any:
    """Return what a step answers; a refusal by its type."""
    try:
        return act(lab)
    except (FencedError, DuplicateTaskError) as refusal:
        return type(refusal)


def _mourned(lab: Lab, worker: str) -> list[Any]:
    """Read all the obituaries there are."""
    found: list[Any] = []
    while batch := lab.store.read_obituaries(worker, QUEUES):
        found += batch
    return found


def _dispatched(reply: Any) -> Any:
    return reply.count, reply.counts


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_long_life(any_server: Any) -> None:
    """Two hundred lives of fifty steps."""
    live(any_server, max_examples=200, stateful_step_count=50)


def test_life(any_server: Any) -> None:
    """Twenty-five lives of thirty steps."""
    live(any_server, max_examples=25, stateful_step_count=30, derandomize=True)
