"""A grant that counts only once replicas have it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.servers import ValkeyServer
from tests.waiting import wait_until
from tq_celery.errors import StoreUnavailableError
from tq_celery.settings import Settings
from tq_celery.store.redis_store import RedisStore

#: TTL of the lease, ms: long where a replica is to be in time, however busy the machine.
LONG, TTL = 16_000, 1_000


@pytest.fixture
def primary() -> Iterator[ValkeyServer]:
    with ValkeyServer(config={"repl-diskless-sync-delay": "0"}) as server:
        yield server


@pytest.fixture
def store(primary: ValkeyServer) -> Iterator[RedisStore]:
    store = RedisStore.open(Settings(url=primary.url, leader_replicas=1))
    yield store
    store.close()


@pytest.fixture
def replica(primary: ValkeyServer) -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        client = server.client()
        client.replicaof("127.0.0.1", primary.port)
        wait_until(lambda: client.info()["master_link_status"] == "up", "the replica follows")
        yield server
        client.close()


def test_without_a_replica_nobody_leads(store: RedisStore) -> None:
    """Seen to fail without the question to the replicas: the lease was granted."""
    with pytest.raises(StoreUnavailableError, match="0 of 1 replicas have the grant") as refused:
        store.elect("a", TTL)
    assert refused.value.refusal == "NOREPLICAS"
    assert store.client.get(store.keys.name("leader")) is None, "the next one may try at once"
    assert store.client.get(store.keys.name("epoch")) == b"1", "and gets another epoch"


def test_a_replica_has_the_grant_or_is_waited_for(store: RedisStore, replica: ValkeyServer) -> None:
    """One that lags is waited for, and no longer than a quarter of the TTL."""
    assert store.elect("a", LONG).epoch == 1
    client = replica.client()
    assert client.get(store.keys.name("epoch")) == b"1"
    client.close()
    assert store.elect("b", TTL).epoch == 0, "who is refused asks no replica"
    replica.pause()
    try:
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="NOREPLICAS"):
            store.elect("a", TTL)
        assert time.monotonic() - began >= TTL / 1000 / 4
    finally:
        replica.resume()
    wait_until(lambda: _granted(store), "the replica is back, and a scheduler leads")


def _granted(store: RedisStore) -> bool:
    try:
        return bool(store.elect("a", TTL).epoch)
    except StoreUnavailableError:
        return False
