"""A namespace that keeps its promises passes: at rest, at work, read at once and page by page."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import pytest

from tests.servers import ValkeyServer
from tests.store.contract.steps import NO_LIMITS, announce, task
from tests.store.verify.conftest import check, ended, lived
from tests.waiting import wait_until
from tq_celery.errors import StoreError
from tq_celery.scheduler.service import Scheduler
from tq_celery.settings import Settings
from tq_celery.states import Outcome
from tq_celery.store.contract import Return
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.verify import verify
from tq_celery.store.verify.contract import PROMISES

pytestmark = pytest.mark.may_leak


@pytest.fixture
def life(any_server: ValkeyServer, namespace: str) -> Iterator[RedisStore]:
    store = RedisStore.open(Settings(url=any_server.url, namespace=namespace))
    store.seed(Settings())
    store.elect("me", 60_000)
    store.renew(announce("w", "q", slots=1_000), 60_000)
    yield lived(store)
    store.close()


@pytest.mark.parametrize("at_once", [20_000, 0])
def test_nothing_is_wrong(life: RedisStore, at_once: int) -> None:
    found = check(life, at_once=at_once)
    assert found.passed, found.violations
    assert found.horizon.live == 11
    assert found.horizon.results.length == found.horizon.checked["settled_once"] == 7
    assert set(found.horizon.checked) == set(PROMISES)
    assert found.as_dict()["horizon"]["dead"] == asdict(found.horizon.dead)


def test_an_empty_namespace(store: RedisStore) -> None:
    found = check(store)
    assert found.passed, found.violations
    assert found.horizon.since == found.horizon.until


def test_a_server_that_is_away(make_server: Callable[..., Any]) -> None:
    server = make_server("valkey")
    store = RedisStore.open(Settings(url=server.url, namespace="away"))
    server.stop()
    with pytest.raises(StoreError):
        check(store)
    store.close()


class Traffic:
    """Producer, leader and worker of a namespace, each in a thread of its own."""

    def __init__(self, server: ValkeyServer, namespace: str, policy: Any) -> None:
        self.settings = Settings(url=server.url, namespace=namespace, policy=policy)
        self.stores = [RedisStore.open(self.settings) for _ in range(2)]
        self.stop = threading.Event()
        self.settled = 0
        self.failed: list[BaseException] = []

    @contextmanager
    def flowing(self) -> Iterator[None]:
        works = (self.produce, self.lead, self.work)
        threads = [threading.Thread(target=self.run, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stop.set()
            for thread in threads:
                thread.join()
            for store in self.stores:
                store.close()
        assert not self.failed, self.failed

    def run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.failed.append(error)

    def produce(self) -> None:
        store, chance = self.stores[0], random.Random(1)
        number = 0
        while not self.stop.wait(0.002):
            for _ in range(5):
                number += 1
                tenant = f"t{chance.randrange(6)}" if number % 20 else f"once{number}"
                delay = 30 if number % 7 == 0 else None
                made = task(
                    f"n{number}", tenant, "q", cost=chance.choice((0.5, 1.0, 4.0)),
                    priority=chance.randrange(3), delay=delay,
                )  # fmt: skip
                store.submit(made, NO_LIMITS)
            if number % 50 == 0:
                store.revoke([f"n{number - 3}"])

    def lead(self) -> None:
        scheduler = Scheduler(self.settings)
        while not self.stop.wait(0.001):
            scheduler.run_once()
        scheduler.stop()

    def work(self) -> None:
        store, chance = self.stores[1], random.Random(2)
        while not self.stop.is_set():
            store.renew(announce("w", "q", slots=20), 5_000)
            for each in store.read("w", {"q": 10}, 5):
                fate = chance.random()
                if fate < 0.1:
                    store.give_back([Return(each.token, delay=chance.choice((0, 5, 20)))], 9)
                elif fate < 0.12:
                    store.bury("w", each.token, "no reason")
                else:
                    store.complete("w", [ended(store, each.token, Outcome.COMPLETED)])
                    self.settled += 1
            store.close_obituaries(store.read_obituaries("w", ["q"]))


@pytest.mark.parametrize("policy", ["wfq", "fifo"])
def test_no_false_alarm_while_tasks_flow(server: ValkeyServer, namespace: str, policy: str) -> None:
    """Given back with and without a delay, revoked, buried: all of it happens between two reads."""
    traffic = Traffic(server, namespace, policy)
    with traffic.flowing(), server.client() as client:
        wait_until(lambda: traffic.settled > 20 or traffic.failed, "tasks flow")
        rounds = 0
        while rounds < 6 or traffic.settled < 300:
            rounds += 1
            assert not traffic.failed, traffic.failed
            assert rounds < 5_000, "it stands still"
            at_once = 20_000 if rounds % 2 else 0
            found = verify(client, traffic.stores[0].keys, at_once=at_once, pause=0.02)
            assert found.passed, found.violations
    assert found.horizon.checked["service"] > 300
