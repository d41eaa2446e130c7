"""Calls of scripts are timed, and their errors counted, from the moment somebody asks."""

from __future__ import annotations

import pytest

from tests.store.contract.steps import admit_all, submit, task
from tq_celery.errors import FencedError
from tq_celery.store import scripts
from tq_celery.store.redis_store import RedisStore
from tq_celery.store.script_times import ScriptTimes


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> ScriptTimes:
    made = ScriptTimes()
    monkeypatch.setattr(scripts, "SCRIPT_TIMES", made)
    return made


def test_times_and_errors_by_script(store: RedisStore, times: ScriptTimes) -> None:
    store.seed(store.settings)
    assert not times.times(), "nobody has asked"
    times.keep()
    store.elect("me", 60_000)
    store.client.set(store.keys.name("fence"), 9)
    for _ in range(2):
        with pytest.raises(FencedError):
            store.dispatch(1, ("q",), 1, 1)

    found = times.times()

    assert {name: each.cumulative()[-1][1] for name, each in found.items()} == {
        "elect": 1,
        "dispatch": 2,
    }
    assert 0 < found["elect"].total < 5
    assert times.errors() == {("dispatch", "FencedError"): 2}


def test_a_delivery_says_since_when_it_waits(store: RedisStore) -> None:
    """From when it was taken, or due if that was later."""
    store.seed(store.settings)
    store.set_policy("none")
    (taken,) = submit(store, task("now"))
    store.elect("me", 60_000)
    admit_all(store)
    (delivery,) = store.read("w", {"q": 1}, 0)
    assert delivery.since == taken.at
