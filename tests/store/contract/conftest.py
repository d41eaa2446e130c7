"""The ``lab`` fixture: each store in turn, seeded with the policy that a test asks for."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.store.contract.lab import Lab, MemoryLab, RedisLab, wipe
from tq_celery.settings import Settings
from tq_celery.store.redis_store import RedisStore

STORES = ("memory", "valkey", "redis")


@pytest.fixture(params=STORES)
def make_lab(request: pytest.FixtureRequest) -> Iterator[Callable[..., Lab]]:
    """Make labs of one kind of store; ``make_lab(policy="fifo")`` seeds its namespace."""
    opened: list[RedisLab] = []

    def make(**seed: Any) -> Lab:
        if request.param == "memory":
            return MemoryLab(**seed)
        server = request.getfixturevalue(f"{request.param}_server")
        store = RedisStore.open(Settings(url=server.url, namespace=f"lab{uuid.uuid4().hex[:12]}"))
        lab = RedisLab(store, server.client(), **seed)
        opened.append(lab)
        return lab

    yield make
    for lab in opened:
        wipe(lab.client, lab.keys)
        lab.client.close()
        lab.store.close()


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    """One namespace under fair sharing."""
    return make_lab()
