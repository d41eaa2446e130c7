"""What became of a run, as its results come in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tq_celery.produce import follow as module
from tq_celery.produce.follow import Follower, Waits, follow
from tq_celery.settings import Settings
from tq_celery.store.contract import Limits, Submission
from tq_celery.store.record import TaskKey
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.run_book import RunBook


class Space:
    def __init__(self, url: str, namespace: str) -> None:
        settings = Settings(url=url, namespace=namespace)
        self.book = RunBook.open(settings)
        self.store = RedisStore.open(settings)

    def result(self, task_id: str, **fields: Any) -> None:
        """Write a result as the scripts do, as far as it is read here."""
        own = {"tenant": "a", "outcome": "completed", "submitted": 1000, "started": 1500.0}
        client: Any = self.book.client
        client.xadd(self.book.keys.name("results"), {"id": task_id, **own, **fields})

    def submit(self, *ids: str) -> None:
        for each in ids:
            self.store.submit(Submission(TaskKey(each), "q", b"a", b"{}", bytes(16)), Limits())


@pytest.fixture
def space(server: Any, namespace: str) -> Iterator[Space]:
    made = Space(server.url, namespace)
    yield made
    made.book.close()
    made.store.close()


def test_results_of_the_run_are_counted_once_and_no_others(space: Space) -> None:
    space.result("r-1-0")
    after = space.book.last_result()
    for task_id in ("r-1-1", "r-1-1", "r-1-2", "r-1-03", "r-1-9", "r-11-3", "r-1-x", "r-1", ""):
        space.result(task_id)
    follower = Follower(space.book, "r-1", 5, after)
    assert follower.poll() == 2
    assert follower.poll() == 0
    assert follower.missing_ids() == ["r-1-0", "r-1-3", "r-1-4"]


def test_more_results_than_one_page(space: Space) -> None:
    for job in range(1200):
        space.result(f"r-1-{job}")
    follower = Follower(space.book, "r-1", 1200, "0")
    assert follower.poll() == 1200


def test_waits_are_by_tenant_and_of_what_was_started(space: Space) -> None:
    for job, wait in enumerate((100, 200, 300)):
        space.result(f"r-1-{job}", tenant="big", started=1000.0 + wait)
    space.result("r-1-3", tenant="small", started=1050.0)
    space.result("r-1-4", tenant="small", started=0, outcome="revoked")
    space.result("r-1-5", tenant="small", started=990.0)  # clocks of two machines
    follower = Follower(space.book, "r-1", 6, "0")
    follower.poll()
    assert follower.outcomes == {"completed": 5, "revoked": 1}
    assert list(follower.waits()) == ["big", "small"]
    big = follower.waits()["big"]
    assert (big.count, big.p50, big.p95, big.max) == pytest.approx((3, 0.2, 0.29, 0.3))
    assert follower.waits()["small"].max == pytest.approx(0.05)
    assert follower.waits()["small"].p50 == pytest.approx(0.025)
    assert follower.all_waits().count == 5
    assert Waits.of([]) == Waits(0, 0.0, 0.0, 0.0)


def test_following_ends_with_the_last_result(space: Space) -> None:
    space.submit("r-1-0", "r-1-1")
    follower = Follower(space.book, "r-1", 2, "0")

    def look(found: Follower) -> None:
        space.result(f"r-1-{found.ended}")

    assert follow(follower, space.store, threading.Event(), look) == 0
    assert follower.ended == 2


def test_results_that_are_gone_do_not_hold_it_up(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail without the search: it waited for ever."""
    monkeypatch.setattr(module, "_QUIET", 0.2)
    space.result("r-1-0")
    follower = Follower(space.book, "r-1", 3, "0")
    assert follow(follower, space.store, threading.Event(), lambda found: None) == 2


def test_what_still_lives_is_waited_for_until_a_halt(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_QUIET", 0.0)
    space.submit("r-1-1")
    halt, looks = threading.Event(), []

    def look(found: Follower) -> None:
        looks.append(found.ended)
        if len(looks) == 3:
            halt.set()

    follower = Follower(space.book, "r-1", 2, "0")
    assert follow(follower, space.store, halt, look) == 0
    assert len(looks) == 3
