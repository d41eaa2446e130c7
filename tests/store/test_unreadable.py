"""What a server holds that nobody of ours wrote, and a namespace that was emptied meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tests.store.contract.steps import admit_all, announce, complete, dispatch_all, submit, task
from tq_celery.errors import FencedError
from tq_celery.store.redis_store import RedisStore


def test_unreadable_members_of_the_delayed_set(client: redis.Redis, store: RedisStore) -> None:
    """They come back with a reason and go to the dead letters with their bytes."""
    store.seed(store.settings)
    name = store.keys.name
    raw = [b"\xff\xfe", b"", b'{"a":1}', b"\x00" * 500, b"\x00\x00\x01\x00\x01\xff" + b"x" * 60]
    client.zadd(name("delayed"), dict.fromkeys(raw, 0))
    due, _ = store.due(10)
    assert {each.member for each in due} == set(raw)
    assert all(each.reason for each in due)
    assert store.bury_delayed(1, due) == len(raw)
    assert store.bury_delayed(1, due) == 0
    entries: Any = client.xrange(name("dead"))
    letters = [fields for _, fields in entries]
    assert {each[b"raw_member"] for each in letters} == set(raw)
    assert client.hget(name("counters"), "unreadable:delayed") == b"%d" % len(raw)
    with pytest.raises(FencedError):
        store.bury_delayed(0, due)


def test_a_leader_of_an_emptied_namespace_is_refused(store: RedisStore) -> None:
    """Without its configuration nothing may be placed: the next term writes that first.

    Seen to fail without the check in ``fence.lua``: tasks were placed by arrival in a fair race,
    and waited behind everybody who came later.
    """
    with pytest.raises(FencedError):
        store.admit(7, 1, [])
    assert not store.client.exists(store.keys.name("fence"))
    store.seed(store.settings)
    assert store.admit(7, 1, []) == 0


def test_a_tenant_s_record_that_is_none_begins_anew(client: redis.Redis, store: RedisStore) -> None:
    """It must hold up neither the settlements of the tenant nor the leader.

    Seen to fail without the look at its length: no task of the tenant could end any more.
    """
    store.seed(store.settings)
    name = store.keys.name("service")
    client.hset(name, mapping={b"acme": b"junk", b"globex": b"x" * 90})
    assert store.accounts().served == {}
    submit(store, task("n", "acme"))
    admit_all(store)
    dispatch_all(store)
    store.renew(announce("w", "q"), 30_000)
    (held,) = store.read("w", {"q": 1}, 0)
    assert store.complete("w", [complete(held.token)]) == [True]
    store.account(1, 0, 0, 0, {b"globex": "shown"})
    found = {tenant: (each.micros, each.shown) for tenant, each in store.accounts().served.items()}
    assert found == {b"acme": (1_000, 0), b"globex": (0, 1)}
