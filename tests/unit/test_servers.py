"""The test servers do what the tests rely on."""

from __future__ import annotations

from pathlib import Path

import kombu
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests import leaks
from tests.servers import RabbitServer, ValkeyServer
from tq_celery.store.keys import Keys
from tq_celery.store.wipe import wipe


def test_both_servers_answer(any_server: ValkeyServer) -> None:
    with any_server.client() as client:
        info = client.info("server")
    assert info["server_name"] == "valkey" if any_server.name == "valkey" else info["redis_version"]


def test_a_frozen_server_is_silent_and_then_goes_on(make_server) -> None:
    server = make_server()
    server.pause()
    with redis.Redis(
        port=server.port, socket_timeout=0.2, retry=Retry(NoBackoff(), 0), protocol=2
    ) as client:
        with pytest.raises(redis.exceptions.RedisError):
            client.ping()
    server.resume()
    with server.client() as client:
        assert client.ping()


def test_leaks_are_found_and_wiped(client: redis.Redis, namespace: str) -> None:
    keys = Keys(namespace)
    client.set(keys.name("epoch"), 1)  # kept by design
    client.set(keys.name("leader"), "me", ex=5)  # goes by itself
    client.hset(keys.name("payload"), "k", "v")
    client.xadd(keys.of_queue("exec", "empty"), {"k": "v"})
    client.xtrim(keys.of_queue("exec", "empty"), 0)
    client.xadd(keys.of_queue("exec", "full"), {"k": "v"})
    assert leaks.leaked(client, namespace) == ["exec:full (stream)", "payload (hash)"]
    wipe(client, Keys(namespace))
    assert not client.keys(keys.prefix + "*")


@pytest.mark.slow
def test_rabbitmq_carries_a_message_over_a_kill() -> None:
    rabbit = RabbitServer()
    try:
        rabbit.start()
        with kombu.Connection(
            rabbit.url, transport_options={"confirm_publish": True}
        ) as connection:
            queue = connection.SimpleQueue("q")
            queue.put({"n": 1})
            queue.close()
        rabbit.kill()
        rabbit.start()
        assert "q\t1" in rabbit.control("list_queues", "name", "messages")
        assert rabbit._mapper is not None
        pids = [rabbit.pid, rabbit._mapper.pid]
    finally:
        rabbit.stop()
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert rabbit.pid == 0
