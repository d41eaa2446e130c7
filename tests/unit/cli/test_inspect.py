"""The read-only views, on both servers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.servers import ValkeyServer
from tq_celery.settings import Settings
from tq_celery.store.contract import Limits, Submission, WorkerAnnouncement
from tq_celery.store.inspect import Inspector
from tq_celery.store.record import TaskKey
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.views import LeaderView


@pytest.fixture
def inspector(store: RedisStore) -> Inspector:
    return Inspector(store.client, store.keys)


def test_an_empty_namespace_is_all_zero(inspector: Inspector) -> None:
    view = inspector.overview()
    assert view.leader == LeaderView(None, 0, 0, 0)
    assert (view.submitted, view.delayed, view.dead, view.starved) == (0, 0, 0, False)
    assert [view.queues, view.tenants, view.workers] == [[], [], []]
    assert not inspector.dead(10)
    assert not inspector.results(10)
    assert inspector.dead_letter("1-1") is None
    assert inspector.known(b"acme") is False


def test_the_first_of_what_waits(store: RedisStore, inspector: Inspector) -> None:
    """Seen to fail: ``next_due`` was a byte of the delayed member."""
    for name, delay in (("a", None), ("b", 60_000), ("c", 30_000)):
        store.submit(Submission(TaskKey(name), "q", b"t", b"{}", bytes(16), delay=delay), Limits())
    view = inspector.overview()
    assert view.now - 10_000 < view.oldest <= view.now
    assert view.now + 20_000 < view.next_due <= view.now + 30_000


def test_the_leader(store: RedisStore, inspector: Inspector) -> None:
    store.elect("me", 5_000)
    held = inspector.leader()
    assert (held.owner, held.epoch, held.fence) == ("me", 1, 0)
    assert 0 < held.remaining <= 5_000
    store.client.persist(store.keys.name("leader"))
    assert inspector.leader().remaining == -1


def test_workers_and_a_garbled_announcement(store: RedisStore, inspector: Inspector) -> None:
    store.renew(WorkerAnnouncement("w1", ("a", "b"), 3, 2, "host", 9, "threads"), 30_000)
    store.renew(WorkerAnnouncement("w2", ("a",), 1, 0), 30_000)
    store.client.hset(store.keys.name("announcements"), "w2", b"\xff{")
    first, second = sorted(inspector.workers(), key=lambda worker: worker.worker)
    assert (first.queues, first.slots, first.ahead, first.pool) == (("a", "b"), 3, 2, "threads")
    assert (first.host, first.pid, first.holding) == ("host", 9, 0)
    assert (second.queues, second.slots) == ((), 0)


def test_many_tenants_are_read_in_bounded_steps(store: RedisStore, inspector: Inspector) -> None:
    tasks = [Submission(TaskKey(str(n)), "q", b"t%d" % n, b"{}", bytes(16)) for n in range(1_200)]
    store.submit_many(tasks, Limits())
    found, partial = inspector.tenants()
    assert (len(found), partial) == (1_200, False)
    assert all(view.live == 1 for view in found)
    found, partial = inspector.tenants(700)
    assert (len(found), partial) == (700, True)


def test_dead_letters_with_missing_or_odd_fields(store: RedisStore, inspector: Inspector) -> None:
    entry: Any = store.client.xadd(store.keys.name("dead"), {"attempts": "many", b"\xff": b"\xfe"})
    (letter,) = inspector.dead(10)
    assert letter.entry == entry.decode()
    assert (letter.key, letter.attempts, letter.payload, letter.raw) == ("", 0, b"", {})
    assert letter.at > 0


def test_a_flush_leaves_an_inspector_working(make_server, namespace: str) -> None:
    server: ValkeyServer = make_server()
    store = RedisStore.open(Settings(url=server.url, namespace=namespace))
    inspector = Inspector(store.client, store.keys)
    store.seed(store.settings)
    store.submit(Submission(TaskKey("a"), "q", b"t", b"{}", bytes(16)), Limits())
    assert inspector.overview().submitted == 1
    store.client.flushall()
    assert inspector.overview().submitted == 0
    assert inspector.config() == {}
    store.close()


def test_tasks_between_two_rankings_are_still_pending(
    store: RedisStore, inspector: Inspector
) -> None:
    """During a policy switch a tenant's tasks are in two sets; both wait."""
    keys = store.keys
    store.client.hset(keys.name("counters"), "pending:q", 3)
    store.client.zadd(keys.of_tenant("pending", "q", b"t"), {b"a": 1})
    store.client.zadd(keys.of_tenant("outdated", "q", b"t"), {b"b": 1, b"c": 2})
    (view,) = inspector.describe([b"t"])
    assert view.pending == {"q": 3}
