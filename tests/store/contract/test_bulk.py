"""Twenty thousand at once: bounded calls, everything once, and nothing left in any stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.store.contract.lab import Lab, RedisLab
from tests.store.contract.steps import (
    NO_LIMITS,
    admit_all,
    announce,
    complete,
    dispatch_all,
    promote_all,
    submit,
    task,
)
from tq_celery.store import base
from tq_celery.store.contract import MAX_BATCH, Return, Settlement
from tq_celery.store.scripts import call

MANY = 20_000


class Busy:
    """The longest time, in ms, for which one script call kept a server from everybody else.

    It is the server's own processor time: elapsed time would also count what else the machine
    does, and on an idle one the two are equal.
    """

    def __init__(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.longest = 0.0
        if isinstance(lab, RedisLab):
            self._client = lab.client
            monkeypatch.setattr(base, "call", self._call)

    def _spent(self) -> float:
        info = self._client.info("cpu")
        return float(info["used_cpu_user"] + info["used_cpu_sys"]) * 1000

    def _call(self, *args: Any, **options: Any) -> Any:
        before = self._spent()
        reply = call(*args, **options)
        self.calls += 1
        self.longest = max(self.longest, self._spent() - before)
        return reply


def finish(lab: Lab) -> int:
    """Dispatch, read and settle everything in batches; returns how many ended."""
    ended = 0
    lab.store.renew(announce("w", "q"), 600_000)
    while True:
        lab.store.dispatch(1, ["q"], MAX_BATCH, MAX_BATCH)
        found = lab.store.read("w", {"q": MAX_BATCH}, 0)
        if not found:
            return ended
        settled = lab.store.complete("w", [complete(each.token) for each in found])
        assert all(settled)
        ended += len(settled)


def assert_clean(lab: Lab, accepted: int) -> None:
    """Every stream has length 0; the counters say that all were settled."""
    view = lab.view()
    assert view.counters == {"accepted:q": accepted, "completed:q": accepted}
    assert view.nonempty() == {}
    if isinstance(lab, RedisLab):
        assert lab.client.xlen(lab.keys.name("ingress")) == 0
        assert lab.client.xlen(lab.keys.of_queue("exec", "q")) == 0
        assert lab.client.hlen(lab.keys.of_queue("running", "q")) == 0
        groups = lab.client.xinfo_groups(lab.keys.of_queue("exec", "q"))
        assert [group["pending"] for group in groups] == [0]


@pytest.mark.slow
@pytest.mark.parametrize("tenants", [1, 300])
@pytest.mark.parametrize("how", ["all due at once", "all in ingress"])
def test_twenty_thousand_at_once(
    lab: Lab, how: str, tenants: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call takes more than a batch, and others wait less than 50 ms (Bogdanp/dramatiq #258)."""
    due: dict[str, Any] = {"due": 2**50} if how == "all due at once" else {}
    tasks = [task(f"n{i}", f"t{i % tenants}", **due) for i in range(MANY)]
    receipts = lab.store.submit_many(tasks, NO_LIMITS)
    assert all(receipt.status == "accepted" for receipt in receipts)
    if due:
        lab.ripen()
    busy = Busy(lab, monkeypatch)
    moved = promote_all(lab.store) if due else admit_all(lab.store)
    assert moved == MANY
    assert finish(lab) == MANY
    assert_clean(lab, MANY)
    assert busy.longest < 50


@pytest.mark.slow
def test_twenty_thousand_of_a_lost_worker(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reclaimed in batches, each task once (Bogdanp/dramatiq #258)."""
    lab.store.submit_many([task(f"n{i}", f"t{i % 7}") for i in range(MANY)], NO_LIMITS)
    admit_all(lab.store)
    dispatch_all(lab.store)
    lab.store.renew(announce("lost", "q"), 600_000)
    while lab.store.read("lost", {"q": 5_000}, 0):
        pass
    lab.lapse("lost")
    busy = Busy(lab, monkeypatch)
    taken = []
    while count := lab.store.reclaim("lost", 5, True, MAX_BATCH):
        taken.append(count)
    assert sum(taken) == MANY
    assert max(taken) <= MAX_BATCH
    assert busy.longest < 50
    assert finish(lab) == MANY
    assert_clean(lab, MANY)


def test_streams_return_to_length_0_and_nothing_is_trimmed(lab: Lab) -> None:
    """More tasks than any cap, twice, with the workers away (taskiq-python/taskiq-redis #114)."""
    for round_ in range(2):
        names = [f"r{round_}n{i}" for i in range(3_000)]
        lab.store.submit_many([task(name) for name in names], NO_LIMITS)
        admit_all(lab.store)
        dispatch_all(lab.store)
        assert lab.names("q") == names, "task streams are never trimmed"
        assert finish(lab) == len(names)
        assert_clean(lab, (round_ + 1) * 3_000)


@pytest.fixture
def flushing(make_lab: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab whose server forgets all scripts before every call."""
    lab = make_lab()
    if isinstance(lab, RedisLab):
        plain = lab.store.client.execute_command
        flusher = lab.client

        def execute(*args: Any, **options: Any) -> Any:
            if args[0] == "EVALSHA":
                flusher.script_flush()
            return plain(*args, **options)

        monkeypatch.setattr(lab.store.client, "execute_command", execute)
    return lab


def test_every_step_survives_a_script_flush(flushing: Lab) -> None:
    """A restart or a flush forgets the scripts; no step notices (Openpanel-dev/groupmq #16)."""
    lab = flushing
    if isinstance(lab, RedisLab):
        lab.client.script_flush()
    receipts = lab.store.submit_many([task(f"n{i}") for i in range(600)], NO_LIMITS)
    assert {receipt.status for receipt in receipts} == {"accepted"}
    submit(lab.store, task("later", delay=60_000))
    lab.ripen()
    promote_all(lab.store)
    admit_all(lab.store)
    lab.store.dispatch(1, ["q"], 1, 1)
    assert lab.store.give_back([Return(lab.tokens("q")[0])], 5) == [True]
    assert finish(lab) == 601
    assert_clean(lab, 601)


@pytest.mark.parametrize("make_lab", ["valkey", "redis"], indirect=True)
def test_blind_repeats_of_every_script_change_nothing(
    make_lab: Callable[..., RedisLab], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task, one execution, whatever the client re-sends (redis/redis-py #3554).

    A repeated dispatch moves further tasks, and never more than the capacity; a repeated election
    grants the same owner the next epoch. Both are left out here.
    """
    lab = make_lab()

    def twice(client: Any, script: Any, prefix: str, args: Any, epoch: int = 0) -> Any:
        first = call(client, script, prefix, args, epoch)
        if script.name not in ("dispatch", "elect"):
            call(client, script, prefix, args, epoch)
        return first

    monkeypatch.setattr(base, "call", twice)
    submit(lab.store, *[task(f"n{i}", f"t{i % 3}", delay=(i % 2) * 60_000) for i in range(20)])
    lab.ripen()
    promote_all(lab.store)
    admit_all(lab.store)
    lab.store.set_cap(b"t0", 2)
    lab.store.pause_tenant(b"t1")
    lab.store.set_weight(b"t2", 3.0)
    lab.store.resume_tenant(b"t1")
    lab.store.set_cap(b"t0", None)
    lab.view().assert_conserved()
    lab.store.renew(announce("w", "q"), 600_000)
    dispatch_all(lab.store)
    tokens = lab.tokens("q")
    lab.store.read("w", {"q": 15}, 0)
    replies = lab.store.complete("w", [complete(token) for token in tokens[:5]])
    assert replies == [True] * 5
    assert lab.store.give_back([Return(token) for token in tokens[5:8]], 5) == [True] * 3
    assert lab.store.bury("w", tokens[8], "poison") is True
    lab.store.close_obituaries(lab.store.read_obituaries("w", ["q"]))
    lab.view().assert_conserved()
    (entry,) = lab.dead_entries()
    assert lab.store.requeue(entry) == "requeued"
    lab.lapse("w")
    assert lab.store.reclaim("w", 5, True, 500) == 6
    lab.store.withdraw("w")
    admit_all(lab.store)
    view = lab.view()
    view.assert_conserved()
    assert view.counters["accepted:q"] == 21
    assert {name: n for name, n in view.counters.items() if n} == {
        "accepted:q": 21,
        "completed:q": 5,
        "dead:q": 1,
        "dispatched:q": 5,
        "pending:q": 10,
    }


def test_a_repeated_dispatch_stays_within_capacity(lab: Lab) -> None:
    submit(lab.store, *[task(f"n{i}") for i in range(10)])
    admit_all(lab.store)
    for _ in range(3):
        lab.store.dispatch(1, ["q"], 4, 100)
    assert len(lab.names("q")) == 4


def test_settlements_may_be_more_than_a_batch(lab: Lab) -> None:
    submit(lab.store, *[task(f"n{i}") for i in range(1_200)])
    admit_all(lab.store)
    dispatch_all(lab.store)
    items: list[Settlement] = [complete(token) for token in lab.tokens("q")]
    assert lab.store.complete("w", items + items[:10]) == [True] * 1_200 + [False] * 10
