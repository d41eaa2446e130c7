"""Keys that something else than the library wrote to: one sentence that names the key.

Seen to fail: a run record in a field that is no entry's id ended in a traceback, as did a grant
without an epoch; the others did not say which key was meant, and showed all of a value.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.store.verify.conftest import check
from tq_celery.errors import StoreError
from tq_celery.store.redis_store import RedisStore

pytestmark = pytest.mark.may_leak


@pytest.mark.parametrize("field", [b"bogus", b"", b"\xff-\xfe"])
def test_a_run_record_that_is_no_entry_of_a_stream(life: RedisStore, field: bytes) -> None:
    client: Any = life.client
    running = life.keys.of_queue("running", "q")
    client.hset(running, field, next(iter(client.hgetall(running).values())))
    seen = check(life)
    assert {(each.promise, each.id) for each in seen.violations} == {("counters", "dispatched:q")}
    assert "1 entries among the live tasks are no tasks" in seen.horizon.limits


@pytest.mark.parametrize("word", ["counters", "live", "running", "weights", "caps", "changes"])
def test_a_number_that_is_none(life: RedisStore, word: str) -> None:
    life.client.hset(life.keys.name(word), "t", "no number, " * 1000)
    with pytest.raises(StoreError) as refusal:
        check(life)
    assert life.keys.name(word) in str(refusal.value)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "inf"])
def test_a_weight_that_is_none(life: RedisStore, weight: str) -> None:
    """Seen to fail: a weight of 0 ended in a division by it."""
    life.client.hset(life.keys.name("weights"), "t", weight)
    with pytest.raises(StoreError, match="weights is not"):
        check(life)


def test_a_cap_on_the_namespace_that_is_no_number(life: RedisStore) -> None:
    """Seen to fail: it ended in a traceback."""
    life.client.hset(life.keys.name("config"), "max_running", "some")
    with pytest.raises(StoreError, match="config is not"):
        check(life)


@pytest.mark.parametrize("word", ["epoch", "fence"])
def test_an_epoch_that_is_no_number(life: RedisStore, word: str) -> None:
    life.client.set(life.keys.name(word), b"\xff\xfe")
    with pytest.raises(StoreError, match=rf"{word} is not this library's: \\xff\\xfe"):
        check(life)


def test_a_grant_without_an_epoch(life: RedisStore) -> None:
    client: Any = life.client
    entry = client.xadd(life.keys.name("leadership"), {"k": "granted"})
    seen = check(life)
    assert [(each.promise, each.id) for each in seen.violations] == [("epochs", entry.decode())]


@pytest.mark.parametrize("word", ["config", "counters", "payload", "results", "leadership"])
def test_another_type(life: RedisStore, word: str) -> None:
    client: Any = life.client
    client.delete(life.keys.name(word))
    client.rpush(life.keys.name(word), "a list")
    with pytest.raises(StoreError, match="WRONGTYPE") as refusal:
        check(life)
    assert life.keys.name(word) in str(refusal.value)


def test_names_that_are_no_text(life: RedisStore) -> None:
    """A field that is not UTF-8 is not the library's, and is not in its way."""
    for word in ("config", "groups"):
        life.client.hset(life.keys.name(word), b"\xff", b"\xff")
    life.client.sadd(life.keys.name("paused_queues"), b"\xff")
    assert check(life).passed


def test_a_namespace_that_nothing_was_accepted_in(store: RedisStore) -> None:
    """Seen to fail: a name that was mistyped passed without a word."""
    seen = check(store)
    assert seen.passed
    assert any("nothing was ever accepted here" in limit for limit in seen.horizon.limits)


def test_a_namespace_with_a_life_is_not_called_empty(life: RedisStore) -> None:
    assert not any("nothing was ever" in limit for limit in check(life).horizon.limits)
