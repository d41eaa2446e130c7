"""The scene of the failure experiments: a real load through real processes, and its books."""

from __future__ import annotations

import pytest

from bench.harness.failures import signals
from bench.harness.failures.records import lost, settled_twice, stale
from bench.harness.failures.scene import Scene
from tests.waiting import wait_until

pytestmark = pytest.mark.slow


def test_a_load_survives_a_killed_leader(make_server) -> None:
    server = make_server("valkey")
    with Scene(server.url, ttl=1.0) as scene:
        first, second = scene.scheduler(), scene.scheduler()
        leader = scene.await_leader()
        scene.worker("threads", 4)
        load = scene.load(200, 4, batch=4)
        load.began()
        wait_until(lambda: scene.settled() > 100, "tasks flow")
        signals.kill(leader)
        load.finish()
        scene.drained()
        records = scene.records()
        assert len(records) >= 800
        assert lost(load.accepted(), records) == []
        assert settled_twice(records) == []
        assert stale(records) == []
        assert {each.epoch for each in records} == {1, 2}
        assert scene.leader() is (second if leader is first else first)
        assert load.refused() == {}
        assert load.unknown() == set()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_frozen_process_stands_still_until_it_is_resumed(make_server, pool) -> None:
    """With all its children: those of a worker with threads have a session of their own."""
    server = make_server("valkey")
    with Scene(server.url) as scene:
        worker = scene.worker(pool, 2)
        family = [worker.pid, *signals.descendants(worker.pid)]
        assert len(family) >= 2
        signals.freeze(worker)
        assert {signals.state(pid) for pid in family} == {"T"}
        signals.resume(worker)
        assert {signals.state(pid) for pid in family} <= {"S", "R", "D"}
        signals.kill(worker)
        assert {signals.state(pid) for pid in family} <= {"", "Z"}


def test_a_server_that_is_away_is_an_unknown_fate_or_a_refusal(make_server) -> None:
    server = make_server("valkey")
    with Scene(server.url) as scene:
        load = scene.load(100, 2, again=False, env={"TQ_PUBLISH_TIMEOUT": "0.2"})
        load.began()
        server.kill()
        load.finish()
        accepted, refused, unknown = load.accepted(), load.refused(), load.unknown()
        assert accepted
        assert refused or unknown
        ids = {call.id for call in load.calls()}
        assert ids == accepted.keys() | refused.keys() | unknown
        server.start()
