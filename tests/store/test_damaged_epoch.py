"""An epoch's key that holds no number is no obstacle to an election, which writes it anew."""

from __future__ import annotations

import pytest

from tq_celery.store.redis_store import RedisStore

OTHERS = ["", "garbage", "inf", "nan", "9" * 30]


@pytest.mark.parametrize("damaged", OTHERS)
def test_a_counter_that_is_no_number(store: RedisStore, damaged: str) -> None:
    """Seen to fail: the election ended in an error, or gave what could not be extended."""
    store.client.set(store.keys.name("fence"), 7)
    store.client.set(store.keys.name("epoch"), damaged)
    assert store.elect("me", 60_000).epoch == 8
    assert store.extend("me", 8, 60_000)


@pytest.mark.parametrize("damaged", OTHERS)
def test_a_counter_that_is_damaged_under_a_leader(store: RedisStore, damaged: str) -> None:
    assert store.elect("me", 60_000).epoch == 1
    store.client.set(store.keys.name("epoch"), damaged)
    assert store.elect("other", 60_000, 5).in_force == 5
    assert not store.extend("me", 1, 60_000)
    assert store.elect("me", 60_000).epoch == 6
