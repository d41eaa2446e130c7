"""Each promise broken by hand on a server: found, with the offending id and with nothing else.

Seen to fail: with each check taken out, its rows here pass through unseen.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from tests.store.contract.steps import submit, task
from tests.store.verify.conftest import check, deliver, ended, settle
from tq_celery.errors import StoreError
from tq_celery.store.keys import GROUP
from tq_celery.store.record import RUN
from tq_celery.store.redis_store import RedisStore

pytestmark = pytest.mark.may_leak

Broken = set[tuple[str, str]]


def found(store: RedisStore, **options: Any) -> Broken:
    return {(each.promise, each.id) for each in check(store, **options).violations}


def record_of(store: RedisStore, task_id: bytes) -> dict[bytes, bytes]:
    """Return the fields of a task's result record."""
    client: Any = store.client
    records = [fields for _, fields in client.xrange(store.keys.name("results"))]
    return next(fields for fields in records if fields[b"id"] == task_id)


def forge(store: RedisStore, task_id: bytes, **changes: Any) -> None:
    """Append a result record like that of a task, and count it."""
    client: Any = store.client
    fields = record_of(store, task_id) | {k.encode(): str(v).encode() for k, v in changes.items()}
    client.xadd(store.keys.name("results"), fields)
    for word in (fields[b"outcome"].decode(), "accepted"):
        client.hincrby(store.keys.name("counters"), f"{word}:q", 1)


def run_of(store: RedisStore, tenant: bytes) -> tuple[bytes, bytes]:
    """Return entry and key of a tenant's delivery."""
    runs: Any = store.client.hgetall(store.keys.of_queue("running", "q"))
    for entry, raw in runs.items():
        length = RUN.unpack_from(raw)[3]
        if raw[RUN.size : RUN.size + length] == tenant:
            return entry, raw[RUN.size + length + 48 :]
    raise AssertionError(f"nothing of {tenant!r} is running")


def waiting_of(store: RedisStore, tenant: bytes) -> list[bytes]:
    members: Any = store.client.zrange(store.keys.of_tenant("pending", "q", tenant), 0, -1)
    return list(members)


# -- how far it can see --------------------------------------------------------------------------


def test_trimmed_results(life: RedisStore) -> None:
    life.client.xtrim(life.keys.name("results"), maxlen=3, approximate=False)
    assert found(life) == {("horizon", life.keys.name("results"))}


def test_a_result_that_was_removed(life: RedisStore) -> None:
    client: Any = life.client
    ((entry, _),) = client.xrange(life.keys.name("results"), count=1)
    client.xdel(life.keys.name("results"), entry)
    assert found(life) == {("horizon", life.keys.name("results"))}


def test_results_that_are_all_gone(life: RedisStore) -> None:
    life.client.delete(life.keys.name("results"))
    assert found(life) == {("horizon", life.keys.name("results"))}


def test_dead_letters_that_a_cap_dropped(life: RedisStore) -> None:
    life.client.hincrby(life.keys.name("counters"), "dropped:dead", 2)
    assert found(life) == {("horizon", life.keys.name("dead"))}


def test_letters_that_were_requeued_are_no_fault(life: RedisStore) -> None:
    client: Any = life.client
    (entry,) = [entry for entry, _ in client.xrange(life.keys.name("dead"))]
    assert life.requeue(entry) == "requeued"
    seen = check(life)
    assert seen.passed, seen.violations
    assert "1 dead letters were requeued or purged" in seen.horizon.limits


def test_letters_that_were_purged_are_no_fault_either(life: RedisStore) -> None:
    client: Any = life.client
    assert life.purge_dead([entry for entry, _ in client.xrange(life.keys.name("dead"))]) == 1
    assert found(life) == set()


def test_a_letter_that_was_requeued_is_not_taken_for_one_that_is_missing(life: RedisStore) -> None:
    client: Any = life.client
    ((entry, _),) = client.xrange(life.keys.name("dead"))
    assert life.requeue(entry) == "requeued"
    forge(life, b"buried", id="missing")
    assert found(life) == {("one_place", "0.0.0.missing")}


# -- epochs --------------------------------------------------------------------------------------


def test_a_dispatch_under_an_old_epoch(life: RedisStore) -> None:
    life.client.mset({life.keys.name("epoch"): 2, life.keys.name("fence"): 2})
    entry = record_of(life, b"done1")[b"entry"].decode()
    forge(life, b"done1", id="newer", epoch=2, entry=f"{entry.partition('-')[0]}-900")
    forge(life, b"done1", id="stale", epoch=1, entry=f"{entry.partition('-')[0]}-901")
    # everything dispatched after the forged entry of epoch 2 is below it, too
    seen = found(life)
    assert ("epochs", "0.0.0.stale") in seen
    assert {promise for promise, _ in seen} == {"epochs"}
    assert ("epochs", "0.0.0.done1") not in seen


def test_an_epoch_that_is_granted_twice(life: RedisStore) -> None:
    client: Any = life.client
    entry = client.xadd(life.keys.name("leadership"), {"k": "granted", "owner": "b", "epoch": 1})
    assert found(life) == {("epochs", entry.decode())}


def test_an_epoch_below_the_fence(life: RedisStore) -> None:
    life.client.set(life.keys.name("fence"), 7)
    assert found(life) == {("epochs", "epoch")}


def test_a_fence_below_what_has_dispatched(life: RedisStore) -> None:
    life.client.set(life.keys.name("fence"), 0)
    assert found(life) == {("epochs", "fence")}


# -- settled once --------------------------------------------------------------------------------


def test_a_task_with_two_records(life: RedisStore) -> None:
    forge(life, b"done2")
    assert found(life) == {("settled_once", "0.0.0.done2")}


def test_a_key_that_was_forgotten_may_come_again(life: RedisStore) -> None:
    forge(life, b"done2", submitted=int(float(record_of(life, b"done2")[b"finished"])) + 3_700_000)
    assert found(life) == set()


# -- one place -----------------------------------------------------------------------------------


def in_two_places(store: RedisStore) -> Broken:
    member = waiting_of(store, b"t0")[0]
    store.client.zadd(store.keys.of_tenant("outdated", "q", b"t0"), {member: 0})
    store.client.hincrby(store.keys.name("counters"), "pending:q", 1)
    store.client.hincrby(store.keys.name("counters"), "accepted:q", 1)
    store.client.hincrby(store.keys.name("live"), "t0", 1)
    return {("one_place", member[48:].decode())}


def without_a_message(store: RedisStore) -> Broken:
    key = waiting_of(store, b"t0")[0][48:]
    store.client.hdel(store.keys.name("payload"), key.decode())
    return {("one_place", key.decode())}


def in_no_place(store: RedisStore) -> Broken:
    store.client.hset(store.keys.name("payload"), "0.0.0.nowhere", b"d" * 16 + b"message")
    return {("one_place", "0.0.0.nowhere")}


def live_and_remembered(store: RedisStore) -> Broken:
    key = waiting_of(store, b"t1")[0][48:].decode()
    store.client.hset(store.keys.name("done:new"), key, b"d" * 16)
    return {("one_place", key)}


def live_and_settled(store: RedisStore) -> Broken:
    key = waiting_of(store, b"t1")[0][48:].decode()
    forge(store, b"done1", id=key[6:])
    return {("one_place", key)}


def a_run_without_an_entry(store: RedisStore) -> Broken:
    entry, key = run_of(store, b"t0")
    store.client.xdel(store.keys.of_queue("exec", "q"), entry)
    return {("one_place", key.decode())}


def an_entry_without_a_run(store: RedisStore) -> Broken:
    entry = store.client.xadd(store.keys.of_queue("exec", "q"), {"d": "what is this"})
    assert isinstance(entry, bytes)
    return {("one_place", entry.decode())}


def held_and_gone(store: RedisStore) -> Broken:
    """An entry that was deleted after a worker had read it stays in the worker's hands."""
    client: Any = store.client
    exec_ = store.keys.of_queue("exec", "q")
    entry = client.xadd(exec_, {"d": "what is this"})
    client.xreadgroup(GROUP, "w", {exec_: ">"})
    client.xdel(exec_, entry)
    return {("one_place", entry.decode())}


def a_waiting_tenant_without_a_head(store: RedisStore) -> Broken:
    heads: Any = store.client.zrange(store.keys.of_queue("heads", "q"), 0, -1)
    head = next(each for each in heads if each[12:] == b"t1")
    store.client.zrem(store.keys.of_queue("heads", "q"), head)
    return {("one_place", "t1")}


def a_letter_of_nobody(store: RedisStore) -> Broken:
    store.client.xadd(store.keys.name("dead"), {"key": "0.0.0.done1", "queue": "q"})
    return {("one_place", "0.0.0.done1")}


def a_death_without_a_letter(store: RedisStore) -> Broken:
    store.client.delete(store.keys.name("dead"))
    return {("one_place", "0.0.0.buried")}


PLACES = [
    in_two_places, without_a_message, in_no_place, live_and_remembered, live_and_settled,
    a_run_without_an_entry, an_entry_without_a_run, held_and_gone,
    a_waiting_tenant_without_a_head, a_letter_of_nobody, a_death_without_a_letter,
]  # fmt: skip
#: What only tasks read at one moment can tell.
AT_ONCE = {
    a_run_without_an_entry, an_entry_without_a_run, held_and_gone, a_waiting_tenant_without_a_head,
}  # fmt: skip


@pytest.mark.parametrize("break_it", PLACES)
def test_places(life: RedisStore, break_it: Callable[[RedisStore], Broken]) -> None:
    wrong = break_it(life)
    assert found(life) == wrong
    if break_it not in AT_ONCE:
        assert found(life, at_once=0) == wrong


# -- counters and conservation -------------------------------------------------------------------


@pytest.mark.parametrize("state", ["submitted", "delayed", "pending", "dispatched"])
@pytest.mark.parametrize("by", [1, -1])
def test_a_counter_of_a_state(life: RedisStore, state: str, by: int) -> None:
    life.client.hincrby(life.keys.name("counters"), f"{state}:q", by)
    assert found(life) == {("counters", f"{state}:q"), ("conservation", "accepted:q")}


@pytest.mark.parametrize("word", ["live", "running"])
def test_a_counter_of_a_tenant(life: RedisStore, word: str) -> None:
    life.client.hincrby(life.keys.name(word), "t0", 1)
    assert found(life) == {("counters", f"{word} t0")}
    assert found(life, at_once=0) == {("counters", word)}


def test_a_task_that_vanished(life: RedisStore) -> None:
    life.client.hincrby(life.keys.name("counters"), "accepted:q", 1)
    assert found(life) == {("conservation", "accepted:q")}


def test_an_end_without_a_record(life: RedisStore) -> None:
    """Of two queues, so that the number of records alone looks right."""
    life.client.hincrby(life.keys.name("counters"), "completed:q", 1)
    life.client.hincrby(life.keys.name("counters"), "failed:q", -1)
    settled = {("conservation", "completed:q"), ("conservation", "failed:q")}
    assert found(life) == settled


# -- credit --------------------------------------------------------------------------------------


def test_more_in_flight_than_there_were_places(space: RedisStore) -> None:
    submit(space, *(task(f"n{number}") for number in range(4)))
    deliver(space)
    assert found(space) == set()
    space.client.hset(space.keys.name("counters"), "capacity:q", 2)
    assert found(space) == {("credit", "0.0.0.n2"), ("credit", "0.0.0.n3")}


def test_more_of_a_tenant_than_its_cap(space: RedisStore) -> None:
    submit(space, task("a", "acme"), task("b", "acme"), task("c", "globex"))
    deliver(space)
    space.client.hset(space.keys.name("caps"), "acme", "1")
    assert found(space) == {("credit", "0.0.0.b")}
    space.set_cap(b"acme", 1)  # noted: what was dispatched before may be above it
    assert found(space) == set()


def test_more_than_the_cap_on_the_namespace(space: RedisStore) -> None:
    submit(space, *(task(f"n{number}") for number in range(3)))
    deliver(space)
    space.client.hset(space.keys.name("config"), "max_running", 2)
    assert found(space) == {("credit", "0.0.0.n2")}


# -- service -------------------------------------------------------------------------------------


def long_ago(store: RedisStore, name: str, tenant: str, admitted: int, dispatched: int) -> None:
    """Append the record of a task that came, was dispatched and ended at such times."""
    now = 1_700_000_000_000
    forge(
        store, b"one", id=name, tenant=tenant, submitted=now, arrived=now + admitted,
        admitted=now + admitted, dispatched=now + dispatched, started=now + dispatched,
        finished=now + dispatched + 1, entry=f"{now + dispatched}-0",
    )  # fmt: skip


@pytest.mark.parametrize("fair", [True, False])
def test_a_tenant_that_is_not_served(space: RedisStore, fair: bool) -> None:
    """Both wait for a second; one gets its turns first, or each in its turn."""
    settle(space, "one")
    for number in range(20):
        if fair:
            times = (100 + 20 * number, 110 + 20 * number)
        else:
            times = (100 + 10 * number, 300 + 10 * number)
        for tenant, ms in zip(("a", "b"), times, strict=True):
            long_ago(space, f"{tenant}{number}", tenant, 0, ms)
    assert found(space) == (set() if fair else {("service", "a and b")})


def test_a_task_that_was_overtaken(make_space: Callable[..., RedisStore]) -> None:
    space = make_space(policy="fifo")
    settle(space, "one")
    long_ago(space, "first", "a", 0, 900)
    long_ago(space, "second", "b", 100, 500)
    long_ago(space, "third", "b", 600, 950)
    assert found(space) == {("service", "0.0.0.first")}


def test_before_the_policy_changed_nothing_is_judged(make_space: Callable[..., Any]) -> None:
    space = make_space(policy="priority")
    settle(space, "one")
    long_ago(space, "first", "a", 0, 900)
    long_ago(space, "second", "b", 100, 500)
    space.set_policy("fifo")
    assert found(space) == set()
    assert any("policy changed" in limit for limit in check(space).horizon.limits)


def test_a_clock_that_was_stepped_is_named(space: RedisStore) -> None:
    settle(space, "one")
    forge(space, b"one", id="two", finished=1_700_000_000_000)
    space.client.hset(space.keys.name("counters"), "capacity:q", 0)  # is not looked at
    seen = check(space)
    assert seen.passed, seen.violations
    assert any("clock was stepped" in limit for limit in seen.horizon.limits)


def test_bytes_that_are_no_text(space: RedisStore) -> None:
    tenant = b"\xff" + struct.pack(">I", 7)
    submit(space, task("a", tenant))
    space.complete("w", [ended(space, each.token) for each in deliver(space)])
    space.client.hset(space.keys.name("live"), tenant, 1)
    assert found(space) == {("counters", "live \\xff\x00\x00\x00\x07")}


def test_what_is_not_ours_is_left_out_or_named(life: RedisStore) -> None:
    """Seen to fail: a queue's name that is no text ended it with a traceback."""
    client: Any = life.client
    client.sadd(life.keys.name("queues"), b"\xff\xfe")
    client.zadd(life.keys.prefix.encode() + b"pending:no number", {b"x": 1})
    client.xadd(life.keys.name("ingress"), {"what": "is this"})
    client.zadd(life.keys.name("delayed"), {b"short": 1})
    client.hset(life.keys.of_queue("running", "q"), b"99-9", b"junk")
    seen = check(life)
    assert {(each.promise, each.id) for each in seen.violations} == {("counters", "dispatched:q")}
    assert "3 entries among the live tasks are no tasks" in seen.horizon.limits
    client.set(life.keys.of_queue("running", "other"), "no hash")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        check(life)
    client.delete(life.keys.of_queue("running", "other"))
    client.hset(life.keys.name("counters"), "pending:q", "many")
    with pytest.raises(StoreError, match="not this library's"):
        check(life)
