"""Each guard of the library, met by its fault with it and without it, in processes of its own.

These are the guards seen to fail, all in one place: without one, its violation shows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.experiments.guards.account import GUARDS, Guard, faults
from bench.experiments.guards.run import run
from bench.harness.servers import RedisServer, redis_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server("valkey") as server:
        yield server


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_the_violation_shows_without_the_guard_and_not_with_it(
    server: RedisServer, guard: Guard
) -> None:
    kept = run(guard, server, removed=False)
    removed = run(guard, server, removed=True)
    assert faults(guard, [kept], [removed]) == []
