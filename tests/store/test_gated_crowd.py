"""Thousands of tenants reach their cap at once: dispatch sets them aside in bounded steps."""

from __future__ import annotations

import pytest
import redis

from tests.servers import ValkeyServer
from tq_celery.settings import Settings
from tq_celery.store.contract import Admission, Limits, Submission
from tq_celery.store.record import TaskKey, arrival
from tq_celery.store.redis_store import RedisStore

#: More than the values that Lua's ``unpack`` takes, which is near 8,000.
CROWD = 9_000


@pytest.mark.may_leak
def test_a_crowd_of_tenants_at_their_cap_is_set_aside_and_released(
    client: redis.Redis, namespace: str, server: ValkeyServer
) -> None:
    """Seen to fail without the bound: the script broke with the heads already taken out."""
    settings = Settings(url=server.url, namespace=namespace)
    store = RedisStore(client, namespace, settings=settings)
    store.seed(settings)
    epoch = store.elect("me", 60_000).epoch
    tenants = [b"t%d" % i for i in range(CROWD)]
    for round_ in range(2):
        store.submit_many(
            [
                Submission(TaskKey(f"{round_}-{i}"), "q", tenant, b"x", b"d" * 16)
                for i, tenant in enumerate(tenants)
            ],
            Limits(),
        )
    while arrivals := store.read_ingress(b"", 250, 0).arrivals:
        ranked = [
            Admission(a.entry, a.queue, a.tenant, 1, arrival(a.entry) + a.record[12:])
            for a in arrivals
        ]
        store.admit(epoch, 1, ranked)
    for _ in range(CROWD // 250):
        store.dispatch(epoch, ["q"], CROWD, 250)
    caps = client.pipeline(transaction=False)
    caps.hset(store.keys.name("caps"), mapping=dict.fromkeys(tenants, 1))
    caps.execute()
    gated, heads = store.keys.of_queue("gated", "q"), store.keys.of_queue("heads", "q")
    calls = 0
    while client.zcard(heads):
        before = client.scard(gated)
        assert store.dispatch(epoch, ["q"], 2 * CROWD, 250).count == 0
        assert 0 < client.scard(gated) - before <= 500
        calls += 1
    assert client.scard(gated) == CROWD
    assert calls >= CROWD // 500
    assert store.set_cap(b"t7", None)
    assert store.dispatch(epoch, ["q"], 2 * CROWD, 250).count == 1
