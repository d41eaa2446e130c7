"""One task, found in every state and after its end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.store.contract.steps import admit_all, announce, complete, submit, task
from tq_celery.settings import Settings
from tq_celery.states import Outcome, State
from tq_celery.store.contract import Delivery
from tq_celery.store.record import TaskKey
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.sighting import Ending, Sighting, Sightings

pytestmark = pytest.mark.may_leak


@pytest.fixture
def look(store: RedisStore) -> Sightings:
    store.seed(Settings(policy="fifo"))
    assert store.elect("me", 60_000).epoch == 1
    return Sightings(store.client, store.keys.namespace, settings=store.settings)


def seen(look: Sightings, name: str = "a") -> Sighting:
    found = look.find(name)
    assert found is not None
    return found


def read(store: RedisStore) -> Delivery:
    store.renew(announce("w1", "q"), 30_000)
    store.dispatch(1, ["q"], 4, 1)
    return store.read("w1", {"q": 1}, 0)[0]


def test_every_state(store: RedisStore, look: Sightings) -> None:
    submit(store, task("later", delay=60_000, priority=3), task("a", "acme", cost=2.0))
    later = seen(look, "later")
    assert (later.state, later.place.tenant) == (State.DELAYED, b"t")
    assert later.record is not None
    assert later.record.priority == 3
    assert later.due - later.record.submitted == 60_000
    assert seen(look).state == State.SUBMITTED
    admit_all(store)
    pending = seen(look)
    assert (pending.state, pending.place.tenant) == (State.PENDING, b"acme")
    assert pending.outdated is False
    assert pending.record is not None
    assert (pending.score, pending.record.cost) == (pending.record.ms, 2.0)
    store.dispatch(1, ["q"], 4, 1)
    assert (seen(look).state, seen(look).worker) == (State.DISPATCHED, "")
    store.renew(announce("w1", "q"), 30_000)
    (delivery,) = store.read("w1", {"q": 1}, 0)
    running = seen(look)
    assert (running.state, running.worker) == (State.RUNNING, "w1")
    assert running.dispatched == int(delivery.token.entry.split(b"-")[0])
    store.complete("w1", [complete(delivery.token)])
    assert look.find("a") is None
    ending = look.ended("a")
    assert ending is not None
    assert (ending.outcome, ending.worker, ending.tenant) == ("completed", "w1", b"acme")


def test_the_newest_key_of_an_id(store: RedisStore, look: Sightings) -> None:
    submit(store, task("a"))
    admit_all(store)
    delivery = read(store)
    again = task("a", key=TaskKey("a", retries=1), parent=delivery.token, delay=5_000)
    submit(store, again)
    assert seen(look).place.key == TaskKey("a", retries=1)
    assert seen(look).state == State.DELAYED


def test_a_dead_letter_has_its_reason(store: RedisStore, look: Sightings) -> None:
    submit(store, task("a"))
    admit_all(store)
    assert store.bury("w1", read(store).token, "worker lost")
    ending = look.ended("a")
    assert ending is not None
    assert (ending.outcome, ending.reason) == ("dead", "worker lost")
    letters: Any = store.client.xrange(store.keys.name("dead"))
    ((entry, _),) = letters
    assert ending.entry == entry.decode()
    store.purge_dead([entry])
    gone: Any = look.ended("a")
    assert (gone.outcome, gone.reason, gone.entry) == ("dead", "", "")


def test_a_result_that_is_gone(store: RedisStore, look: Sightings) -> None:
    submit(store, task("a"))
    admit_all(store)
    store.complete("w1", [complete(read(store).token, Outcome.FAILED)])
    ending: Any = look.ended("a")
    assert ending.outcome == "failed"
    store.client.delete(store.keys.name("results"))
    assert look.ended("a") == Ending()


def test_unknown_ids(store: RedisStore, look: Sightings) -> None:
    assert look.find("nobody") is None
    assert look.ended("nobody") is None
    assert look.revoked("nobody") is False
    store.revoke(["nobody"])
    assert look.revoked("nobody") is True


def test_a_task_between_two_rankings(store: RedisStore, look: Sightings) -> None:
    submit(store, task("a"))
    admit_all(store)
    keys = store.keys
    store.client.rename(keys.of_tenant("pending", "q", b"t"), keys.of_tenant("outdated", "q", b"t"))
    assert (seen(look).state, seen(look).outdated) == (State.PENDING, True)


def test_submitted_tasks_before_one(store: RedisStore, look: Sightings) -> None:
    submit(store, *(task(name) for name in "abc"))
    assert look.submitted_before(seen(look, "c").member, 100) == 2
    assert look.submitted_before(seen(look, "a").member, 100) == 0
