"""A namespace in which every kind of thing has happened, and a verification of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.servers import ValkeyServer
from tests.store.contract.steps import (
    admit_all,
    announce,
    digest,
    dispatch_all,
    submit,
    task,
)
from tq_celery.settings import Settings
from tq_celery.states import Outcome
from tq_celery.store.contract import Settlement, Token
from tq_celery.store.record import TaskKey
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.verify import Verification, verify


@pytest.fixture
def store(server: ValkeyServer, namespace: str) -> Iterator[RedisStore]:
    """A store on the default server."""
    store = RedisStore.open(Settings(url=server.url, namespace=namespace))
    yield store
    store.close()


@pytest.fixture
def make_space(store: RedisStore) -> Callable[..., RedisStore]:
    """Seed the namespace, ``make_space(policy="fifo")``; give it a leader and a worker ``w``."""

    def make(**seed: Any) -> RedisStore:
        store.seed(Settings(**seed))
        assert store.elect("me", 60_000).epoch == 1
        store.renew(announce("w", "q", slots=1_000), 60_000)
        return store

    return make


@pytest.fixture
def space(make_space: Callable[..., RedisStore]) -> RedisStore:
    """The namespace under fair sharing."""
    return make_space()


@pytest.fixture
def life(space: RedisStore) -> RedisStore:
    """A namespace with a :func:`lived` life."""
    return lived(space)


def lived(space: RedisStore) -> RedisStore:
    """Bring tasks into every state and to every end: see the names of the tasks."""
    settle(space, "done1", "done2", "failed", outcome=Outcome.COMPLETED)
    submit(space, task("retried", "acme"))
    (found,) = deliver(space)
    again = task("retried", "acme", key=TaskKey("retried", retries=1), parent=found.token)
    submit(space, again)
    space.complete("w", [ended(space, found.token, Outcome.RETRIED)])
    submit(space, task("buried", "acme"))
    for found in deliver(space):
        space.bury("w", found.token, "no reason") if found.key.endswith(b"buried") else None
    submit(space, task("back"))
    deliver(space)
    space.withdraw("w")
    space.renew(announce("w", "q", slots=1_000), 60_000)
    submit(space, task("revoked"), task("later", delay=60_000), task("again", delay=60_000))
    space.revoke(["revoked"])
    assert deliver(space)
    submit(space, *(task(f"waits{n}", f"t{n % 2}") for n in range(6)))
    admit_all(space)
    space.dispatch(1, ["q"], 100, 2)
    submit(space, task("new"), task("drained"))
    for batch in space.waiting(["q"]):
        space.drain([each.item for each in batch if each.key.endswith(b"drained")])
    return space


def deliver(store: RedisStore) -> list[Any]:
    """Admit, dispatch and read everything."""
    admit_all(store)
    dispatch_all(store)
    return list(store.read("w", {"q": 1_000}, 0))


def settle(store: RedisStore, *names: str, outcome: Outcome = Outcome.COMPLETED) -> None:
    """Take tasks to their end."""
    submit(store, *[task(name) for name in names])
    store.complete("w", [ended(store, each.token, outcome) for each in deliver(store)])


def ended(store: RedisStore, token: Token, outcome: Outcome = Outcome.COMPLETED) -> Settlement:
    """Return the settlement of a delivery that ran just now."""
    now = float(store.accounts().now)
    return Settlement(token, outcome, digest("settled"), now, now)


def check(store: RedisStore, **options: Any) -> Verification:
    """Verify a namespace; nothing moves in it, so the looks follow each other at once."""
    return verify(store.client, store.keys, pause=0.0, **options)
