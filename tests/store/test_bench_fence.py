"""The inert dispatch of the ceiling experiment really lacks the guard it is compared without."""

from __future__ import annotations

import pytest

from bench.experiments.ceiling.fence import without_fence
from tq_celery.errors import FencedError
from tq_celery.store.scripts import SCRIPTS


def test_a_superseded_epoch_is_refused_by_the_live_script_only(store, monkeypatch) -> None:
    store.seed(store.settings)
    first = store.elect("first", 10_000).epoch
    assert store.resign("first", first)
    second = store.elect("second", 10_000).epoch
    store.dispatch(second, ["celery"], 10, 10)
    with pytest.raises(FencedError):
        store.dispatch(first, ["celery"], 10, 10)
    monkeypatch.setitem(SCRIPTS, "dispatch", without_fence(SCRIPTS["dispatch"]))
    assert store.dispatch(first, ["celery"], 10, 10).count == 0
