"""The servers of ``deploy/docker/compose.ha.yml``: what a lost primary costs, and what it does not.

Seen to fail: with one replica (the promoted one takes no tasks), without ``min-replicas-to-write``
(a primary that was cut off goes on taking them), with ``--replicaof`` in a command (what was
promoted follows again when it starts).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import redis

from tests.servers import SentinelServer, Unavailable
from tests.unit.deploy.compose import FILES, services
from tests.unit.deploy.deployed import Process, Sentinels
from tests.waiting import wait_until
from tq_celery.errors import StoreError
from tq_celery.settings import Settings
from tq_celery.store.contract import Limits, Submission
from tq_celery.store.keys import Keys
from tq_celery.store.producers import Producers
from tq_celery.store.record import TaskKey
from tq_celery.store.verify import Violation, verify

pytestmark = pytest.mark.slow

SERVICES = services(*FILES["sentinels"])


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[Process]]:
    """The primary and its two replicas, which follow it."""
    try:
        SentinelServer.find()
    except Unavailable as missing:
        pytest.skip(str(missing))
    with ExitStack() as stack:
        primary = stack.enter_context(Process(SERVICES["redis"]["command"], tmp_path / "redis"))
        running = [primary]
        for name in ("replica-1", "replica-2"):
            command = SERVICES[name]["command"]
            replica = Process(command, tmp_path / name, primary=primary.port)
            running.append(stack.enter_context(replica))
        for replica in running[1:]:
            wait_until(replica.follows, "the replica follows")
        yield running


def submission(number: int) -> Submission:
    return Submission(TaskKey(f"t{number}"), "q", b"acme", b"{}", number.to_bytes(16, "big"))


def refused(producers: Producers, number: int) -> str:
    """Return why a task is not taken; empty when it is."""
    try:
        producers.submit(submission(number), Limits())
    except StoreError as error:
        return str(error)
    return ""


def broken(server: Process) -> list[Violation]:
    """Return the promises that the server's books show to be broken."""
    with closing(redis.Redis(port=server.port)) as client:
        return verify(client, Keys("n")).violations


def test_a_lost_primary_is_replaced_and_comes_back_as_a_replica(
    servers: list[Process], tmp_path: Path
) -> None:
    primary, *replicas = servers
    with Sentinels(tmp_path, primary.port) as sentinels:
        settings = Settings(url=sentinels.url, namespace="n", publish_timeout=1.0)
        with closing(Producers(settings)) as producers:
            for number in range(10):
                assert refused(producers, number) == ""
            assert primary.client.wait(2, 5_000) == 2
            primary.kill()
            wait_until(lambda: not refused(producers, 10), "a task is taken again", timeout=60)
            for number in range(11, 20):
                assert refused(producers, number) == ""
        (promoted,) = (each for each in replicas if each.replication("role") == "master")
        assert promoted.client.xlen("tq:{n}:ingress") == 20
        assert broken(promoted) == []
        primary.start()
        wait_until(primary.follows, "the old primary follows the new one", timeout=60)
        assert primary.client.xlen("tq:{n}:ingress") == 20
    for each in servers:
        each.kill()
    for each in servers:
        each.start()
        assert each.replication("role") == ("master" if each is promoted else "slave")


def test_a_primary_that_was_cut_off_takes_no_tasks(servers: list[Process]) -> None:
    primary, *replicas = servers
    settings = Settings(url=f"redis://127.0.0.1:{primary.port}/0", namespace="n")
    with closing(Producers(settings)) as producers:
        assert refused(producers, 0) == ""
        for each in replicas:
            each.kill()
        wait_until(lambda: "NOREPLICAS" in refused(producers, 1), "tasks are refused")
    assert broken(primary) == []
