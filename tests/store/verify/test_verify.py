"""A namespace that keeps its promises passes, read at once and page by page."""

from __future__ import annotations

import pytest

from tests.store.verify.conftest import check
from tq_celery.store.redis_store import RedisStore

pytestmark = pytest.mark.may_leak


@pytest.mark.parametrize("at_once", [20_000, 0])
def test_nothing_is_wrong(life: RedisStore, at_once: int) -> None:
    found = check(life, at_once=at_once)
    assert found.passed, found.violations
    assert found.horizon.live == 11
    assert found.horizon.results.length == found.horizon.checked["settled_once"] == 7
