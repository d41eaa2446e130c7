"""What moves while it is looked at is looked at again, by name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.store.contract.steps import admit_all
from tests.store.verify.conftest import check
from tq_celery.store.contract import Return, Token
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.verify.confirm import refresh, still_wrong
from tq_celery.store.verify.contract import Violation
from tq_celery.store.verify.counts import counters
from tq_celery.store.verify.look import Known, discover, read_sizes
from tq_celery.store.verify.tasks import (
    Placed,
    Tasks,
    read_pages,
    running_keys,
    task_commands,
    unpack_tasks,
)

pytestmark = pytest.mark.may_leak


@pytest.fixture
def known(life: RedisStore) -> Known:
    found = Known()
    discover(life.client, life.keys, found)
    return found


def pages(store: RedisStore, known: Known) -> Tasks:
    commands = task_commands(store.keys, known)
    return unpack_tasks(known, read_pages(store.client, commands), False)


def one_of(tasks: Tasks, place: str) -> Placed:
    return next(each for each in tasks.placed if each.place == place)


def test_messages_that_came_and_went(life: RedisStore, known: Known) -> None:
    """Read before the places, a new task's message is missing and an ended one's too many."""
    tasks = pages(life, known)
    came = one_of(tasks, "pending").key
    tasks.payload = (tasks.payload - {came}) | {b"0.0.0.ended"}
    refresh(life.client, life.keys, tasks, set())
    assert came in tasks.payload
    assert b"0.0.0.ended" not in tasks.payload


def test_a_task_that_came_back_behind_the_reader(life: RedisStore, known: Known) -> None:
    """It ran before the first page, and waits by now where had been read already."""
    early = running_keys(life.client, life.keys, known)
    tasks = pages(life, known)
    back = one_of(tasks, "running")
    assert back.key in early
    tasks.placed.remove(back)
    refresh(life.client, life.keys, tasks, early)
    assert back.key not in tasks.payload


@pytest.mark.parametrize("place", ["ingress", "delayed", "pending", "running"])
def test_a_doubt_goes_with_its_task(life: RedisStore, known: Known, place: str) -> None:
    seen = one_of(pages(life, known), place)
    doubt = (Violation("one_place", seen.name, "is somewhere"), (seen,))
    assert list(still_wrong(life.client, life.keys, [doubt])) == [doubt]
    if place == "running":
        life.give_back([Return(Token(seen.queue, seen.member, seen.epoch))], 9)
    elif place == "ingress":
        admit_all(life)
    else:
        life.purge(["q"])
    assert list(still_wrong(life.client, life.keys, [doubt])) == []


def test_tenants_that_were_not_asked_for(life: RedisStore, known: Known) -> None:
    """Their waiting tasks are not counted as missing: the next look asks for them."""
    client: Any = life.client
    seen, _ = read_sizes(client, life.keys, known, [])
    assert not seen.unseen
    partly, _ = read_sizes(client, life.keys, Known({"q"}), [])
    assert partly.unseen
    names = {each.id for each in counters(partly, Tasks(at_once=True))}
    assert "pending:q" not in names
    assert not any(name.startswith("live") for name in names)


def test_a_tenant_that_only_runs_need_not_be_asked_for(
    life: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail: with many tenants counters of waiting tasks were never compared."""
    monkeypatch.setattr("tq_celery.store.verify.look._PAIRS", 0)
    assert b"acme" in life.client.hkeys(life.keys.name("live"))
    assert check(life).horizon.limits == (
        "service: when 2 tasks that came back waited is not known",
    )
    life.client.hincrby(life.keys.name("counters"), "pending:q", 1)
    life.client.hincrby(life.keys.name("counters"), "accepted:q", 1)
    assert {each.id for each in check(life).violations} == {"pending:q"}


def test_a_tenant_whose_tasks_are_nowhere_may_wait_unseen(
    life: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tq_celery.store.verify.look._PAIRS", 0)
    life.client.hset(life.keys.name("live"), "somebody", 1)
    seen = check(life)
    assert seen.passed
    assert any("tenants came while it looked" in limit for limit in seen.horizon.limits)
