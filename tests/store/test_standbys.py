"""Who stands by: told to people, and nothing is decided by it."""

from __future__ import annotations

from tq_celery.store.inspect import Inspector
from tq_celery.store.redis_store import RedisStore


def leader(store: RedisStore) -> tuple[str | None, tuple[str, ...]]:
    view = Inspector(store.client, store.keys).leader()
    # those who ask within one ms have no order
    return view.owner, tuple(sorted(view.standbys))


def test_who_asks_in_vain_stands_by_until_it_leads(store: RedisStore) -> None:
    """Seen to fail without the removal at a grant: the leader then stood by for itself."""
    assert leader(store) == (None, ())
    epoch = store.elect("a", 10_000).epoch
    assert leader(store) == ("a", ())
    for name in ("b", "c", "b"):
        assert not store.elect(name, 10_000).epoch
    assert leader(store) == ("a", ("b", "c"))
    store.resign("a", epoch)
    assert store.elect("b", 10_000).epoch
    assert leader(store) == ("b", ("c",))


def test_who_asks_no_more_is_forgotten(store: RedisStore, wait_until) -> None:
    """No longer counted, then out of the set, and the set is out of the server."""
    assert store.elect("a", 60_000).epoch
    store.elect("gone", 1)
    store.client.zadd(store.keys.name("standbys"), {"gone": 1})
    assert leader(store) == ("a", ())
    store.elect("there", 60_000)
    assert store.client.zrange(store.keys.name("standbys"), 0, -1) == [b"there"]
    assert 0 < store.client.pttl(store.keys.name("standbys")) <= 180_000


def test_a_longer_lease_than_ones_own_is_waited_for(store: RedisStore) -> None:
    """A standby asks again when the leader's lease has run out, whatever its own TTL is."""
    assert store.elect("a", 60_000).epoch
    store.elect("b", 100)
    ends = store.client.zscore(store.keys.name("standbys"), "b")
    assert ends is not None
    assert ends > Inspector(store.client, store.keys).now() + 55_000


def test_a_release_just_before_the_wait_is_heard(store: RedisStore) -> None:
    """Seen to fail with a read from ``$`` on: the lease would lie free until its old end."""
    epoch = store.elect("a", 60_000).epoch
    assert store.await_succession(60_000), "the first look does not wait"
    assert not store.elect("b", 60_000).epoch
    store.resign("a", epoch)
    assert store.await_succession(50)
    assert store.elect("b", 60_000).epoch


def test_what_was_heard_is_not_heard_again(store: RedisStore) -> None:
    """A standby waits for news, it does not poll; one without a leader waits as well."""
    assert store.await_succession(1)
    assert not store.await_succession(1)
    store.elect("a", 60_000)
    assert store.await_succession(1_000)
    assert not store.await_succession(1)
    assert not store.await_succession(1)
