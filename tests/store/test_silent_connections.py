"""Connections that die without a word, as when a server loses its power: new ones are made."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tq_celery.errors import StoreUnavailableError
from tq_celery.settings import Settings
from tq_celery.store.client import connect
from tq_celery.store.redis_store import RedisStore


@pytest.mark.parametrize(
    "step",
    [lambda store: store.elect("me", 1), lambda store: store.read_ingress(b"", 1, 0)],
    ids=["script", "command"],
)
def test_all_that_lie_idle_are_given_up_with_the_first(
    any_server: Any, namespace: str, step: Callable[[RedisStore], Any]
) -> None:
    """One timeout, however many connections the threads have (celery/celery #10302).

    Seen to fail, with a timeout for each, when only the one that failed was closed.
    """
    with connect(any_server.url, timeout=0.6) as client:
        pool: Any = client.connection_pool
        silent = [pool.get_connection() for _ in range(4)]
        for each in silent:
            each.send_command("CLIENT", "REPLY", "OFF")
            pool.release(each)
        store = RedisStore(client, namespace, settings=Settings(url=any_server.url))
        with pytest.raises(StoreUnavailableError, match="Timeout"):
            step(store)
        started = time.monotonic()
        in_use = []
        for _ in silent:
            assert step(store)
            in_use.append(pool.get_connection())  # another thread has it; the next is taken
        assert time.monotonic() - started < 1.8, "three timeouts, where there were four"
        for each in in_use:
            pool.release(each)
