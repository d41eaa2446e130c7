"""The system on three servers: the primary's container is killed, and nothing is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tests.docker.engine import System, docker
from tests.waiting import wait_until

SERVERS = ("redis", "replica-1", "replica-2")

#: More than the two workers can do in the seconds until the primary is killed.
TASKS = 600


def role(system: System, service: str) -> str:
    """Return what a server says it is; empty when it is away."""
    return system.run("exec", "-T", service, "redis-cli", "--raw", "role").stdout.partition("\n")[0]


def primaries(system: System) -> list[str]:
    return [name for name in SERVERS if role(system, name) == "master"]


def offsets(system: System) -> tuple[int, list[int]]:
    """Return how far the primary is, and how far its replicas are."""
    said = system.compose("exec", "-T", "redis", "redis-cli", "info", "replication")
    own = re.search(r"^master_repl_offset:(\d+)", said, re.MULTILINE)
    assert own
    return int(own[1]), [int(each) for each in re.findall(r",offset=(\d+)", said)]


def test_a_lost_primary_loses_nothing_that_was_acknowledged(sentinels: System) -> None:
    system = sentinels
    assert primaries(system) == ["redis"]
    system.compose(
        "run", "--rm", "--no-deps", "-T", "producer",
        "fixed", "--count", str(TASKS), "--seconds", "250ms", "--at-once",
    )  # fmt: skip
    wait_until(system.running, "tasks run", 30, 0.2)
    # Replication is asynchronous; what a replica does not have yet may be lost with its primary.
    reached, _ = offsets(system)
    wait_until(lambda: min(offsets(system)[1]) >= reached, "both replicas have it", 30, 0.2)
    (lost,) = system.ids("redis")
    docker("kill", lost)

    (promoted,) = wait_until(lambda: followed(system, "redis"), "one is promoted", 60, 0.5)
    wait_until(system.leader, "a scheduler leads", 60, 0.5)
    wait_until(lambda: system.completed() == TASKS, "all have ended", 120, 0.5)
    system.assert_nothing_is_left()

    more = system.produce(2, "5s")
    assert system.completed() == TASKS + more["total"]
    system.up("redis")
    wait_until(lambda: role(system, "redis") == "slave", "the old primary follows", 60, 0.5)
    assert primaries(system) == [promoted]


def test_a_primary_that_is_cut_off_takes_nothing(sentinels: System) -> None:
    """Nobody follows it any more; a task that it took would be lost when it follows another."""
    system = sentinels
    before = system.completed()
    (former,) = primaries(system)
    with cut_off(system, former) as container:
        wait_until(lambda: followed(system, former), "another is the primary", 60, 0.5)
        assert role(system, former) == "master"
        # after the five seconds of min-replicas-max-lag
        wait_until(
            lambda: docker("exec", container, "redis-cli", "set", "x", "1").startswith("NOREPL"),
            "it takes nothing",
            30,
            0.5,
        )
        more = system.produce(3, "5s")["total"]
    wait_until(lambda: former not in primaries(system), "it follows the other", 60, 0.5)
    system.assert_nothing_is_left()
    assert system.completed() == before + more


@contextmanager
def cut_off(system: System, service: str) -> Iterator[str]:
    """Take a container out of the network of the others for the block; yields its id."""
    (container,) = system.containers(service)
    ((network, its),) = container["NetworkSettings"]["Networks"].items()
    docker("network", "disconnect", network, container["Id"])
    try:
        yield container["Id"]
    finally:
        address = its["IPAMConfig"]["IPv4Address"]
        docker("network", "connect", "--ip", address, network, container["Id"])


def followed(system: System, former: str) -> list[str]:
    """Return the primaries besides a former one that a replica follows, so that they take tasks."""
    good = re.compile("^min_slaves_good_slaves:[12]", re.MULTILINE)
    return [
        name
        for name in primaries(system)
        if name != former
        and good.search(system.compose("exec", "-T", name, "redis-cli", "info", "replication"))
    ]


def test_all_stop_after_a_failover_and_start_again(sentinels: System) -> None:
    """The first primary, which is behind, must not lead the others back to what it has.

    Seen to fail: with servers that start in the same role each time, whatever was decided since.
    """
    system = sentinels
    before = system.completed()
    docker("kill", *system.ids("redis"))
    wait_until(lambda: followed(system, "redis"), "another is the primary", 60, 0.5)
    wait_until(system.leader, "a scheduler leads", 60, 0.5)
    total = before + system.produce(5, "5s")["total"]

    system.compose("down", "--timeout", "10")
    system.up(*system.services)
    wait_until(lambda: followed(system, "redis"), "the later primary is it again", 60, 0.5)
    wait_until(lambda: role(system, "redis") == "slave", "the first one follows", 60, 0.5)
    wait_until(system.leader, "a scheduler leads", 60, 0.5)
    assert system.completed() == total
    more = system.produce(6, "5s")["total"]
    assert system.completed() == total + more
    system.assert_nothing_is_left()
