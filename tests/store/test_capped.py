"""Streams for reading may be capped; what a cap drops is counted.

taskiq-python/taskiq-redis #114: a cap on the stream of tasks threw away what had not been read.
"""

from __future__ import annotations

from typing import Any

import pytest
import redis

from tq_celery.settings import Settings
from tq_celery.states import Outcome
from tq_celery.store.contract import Admission, Limits, Settlement, Submission, WorkerAnnouncement
from tq_celery.store.record import TaskKey, arrival
from tq_celery.store.redis_store import RedisStore


def settle_all(store: RedisStore, epoch: int, count: int, *, bury: bool) -> None:
    for i in range(count):
        store.submit(Submission(TaskKey(f"t{i}"), "q", b"a", b"x", b"d" * 16), Limits())
    while arrivals := store.read_ingress(b"", 200, 0).arrivals:
        store.admit(
            epoch,
            1,
            [
                Admission(a.entry, a.queue, a.tenant, 1, arrival(a.entry) + a.record[12:])
                for a in arrivals
            ],
        )
    while store.dispatch(epoch, ["q"], count, 200).count:
        pass
    while deliveries := store.read("w", {"q": 200}, 0):
        if bury:
            for each in deliveries:
                store.bury("w", each.token, "no reason")
        else:
            store.complete(
                "w", [Settlement(d.token, Outcome.COMPLETED, d.digest) for d in deliveries]
            )


@pytest.mark.parametrize(("word", "bury"), [("results", False), ("dead", True)])
@pytest.mark.may_leak
def test_what_a_cap_drops_is_counted(
    client: redis.Redis, namespace: str, server: Any, word: str, bury: bool
) -> None:
    settings = Settings(url=server.url, namespace=namespace, results_maxlen=100, dead_maxlen=100)
    store = RedisStore(client, namespace, settings=settings)
    store.seed(settings)
    store.renew(WorkerAnnouncement("w", ("q",), 1000, 0), 30_000)
    settle_all(store, store.elect("me", 60_000).epoch, 1000, bury=bury)
    kept: Any = client.xlen(store.keys.name(word))
    dropped: Any = client.hget(store.keys.name("counters"), f"dropped:{word}")
    assert 100 <= kept <= 300
    assert kept + int(dropped) == 1000


@pytest.mark.may_leak
def test_a_purge_without_any_worker_keeps_to_the_cap(
    client: redis.Redis, namespace: str, server: Any
) -> None:
    """Seen to fail: all thousand results were kept, however small the cap."""
    settings = Settings(url=server.url, namespace=namespace, results_maxlen=100)
    store = RedisStore(client, namespace, settings=settings)
    store.seed(settings)
    tasks = [Submission(TaskKey(f"t{i}"), "q", b"a", b"x", b"d" * 16) for i in range(1000)]
    store.submit_many(tasks, Limits())
    assert store.purge() == 1000
    kept: Any = client.xlen(store.keys.name("results"))
    dropped: Any = client.hget(store.keys.name("counters"), "dropped:results")
    assert 100 <= kept <= 300
    assert kept + int(dropped) == 1000
