"""The cluster of the experiments on failovers fails over, and what was cut off stays cut off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from bench.harness.errors import BenchError
from bench.harness.sentinels import SentinelCluster
from bench.harness.servers import server_binary
from tests.waiting import wait_until
from tq_celery.store.client import connect

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[SentinelCluster]:
    try:
        server_binary("redis")
    except BenchError as missing:
        pytest.skip(str(missing))
    with SentinelCluster("redis", down_after=1.0) as made:
        yield made


def test_what_was_written_after_the_cut_dies_with_the_primary(cluster: SentinelCluster) -> None:
    """The client goes on through the same address, and finds the promoted replica by itself.

    Seen to fail with the replicas left alone by the cut.
    """
    with closing(connect(cluster.url, retries=0)) as client:
        assert client.set("before", 1)
        assert client.wait(2, 10_000) == 2
        cluster.cut_off("replica")
        assert client.set("after", 1)
        assert cluster.proxy.of("replica") == 0
        death = cluster.kill_primary()
        assert death.up == (False, False)
        assert death.behind > 0
        promoted = cluster.client(cluster.promoted())
        assert promoted.keys("*") == [b"before"]

        def written() -> bool:
            try:
                return bool(client.set("again", 1))
            except redis.RedisError:
                return False

        wait_until(written, "the client finds the new primary")
        assert promoted.exists("again")


def test_a_stalled_link_looks_healthy_at_both_ends(cluster: SentinelCluster) -> None:
    with closing(connect(cluster.url)) as client:
        assert client.set("before", 1)
        assert client.wait(2, 10_000) == 2
        cluster.stall_replication()
        assert client.set("after", 1)
        assert client.wait(1, 100) == 0
        assert cluster.proxy.of("replica") == 2
        death = cluster.kill_primary()
        assert death.up == (True, True)
        assert death.behind > 0
        assert not cluster.client(cluster.promoted()).exists("after")


def test_replicas_that_hear_their_primary_have_what_it_wrote(cluster: SentinelCluster) -> None:
    with closing(connect(cluster.url)) as client:
        for number in range(100):
            assert client.set(f"k{number}", number)
        death = cluster.kill_primary()
        assert (death.up, death.behind) == ((True, True), 0)
        assert cluster.client(cluster.promoted()).dbsize() == 100
