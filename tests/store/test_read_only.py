"""A server that answers and takes no writes says nothing about who is alive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tq_celery.errors import StoreUnavailableError
from tq_celery.settings import Settings
from tq_celery.store.redis_store import RedisStore


def test_leases_cannot_be_judged_on_a_read_only_server(make_server: Callable[..., Any]) -> None:
    """Seen to fail when the leases were only read: live workers were taken for dead afterwards."""
    server = make_server("valkey")
    store = RedisStore.open(Settings(url=server.url, namespace="read-only"))
    try:
        assert store.workers()[0] == []
        with server.client() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", "1")
            with pytest.raises(StoreUnavailableError, match="READONLY"):
                store.workers()
            client.execute_command("REPLICAOF", "NO", "ONE")
        assert store.workers()[0] == []
    finally:
        store.close()
