"""A server that forgot which epochs it gave: real schedulers and workers that remember.

The server keeps nothing on disk, so when it is killed and comes back it counts from 1 again. What
it forgets here it would forget as well where a replica took its place that was behind.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.lab import Lab, SchedulerProcess
from tests.store.contract.steps import admit_all
from tests.waiting import wait_until
from tq_celery.errors import FencedError
from tq_celery.store.contract import WorkerAnnouncement

#: Leases have to run out and processes to start: seconds each.
pytestmark = pytest.mark.slow


@pytest.fixture(params=["valkey", "redis"])
def lab(
    make_server: Callable[..., Any],
    namespace: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Lab]:
    lab = Lab(make_server(request.param), namespace, tmp_path)
    yield lab
    lab.close()


def forget(lab: Lab) -> None:
    """Let the server lose everything."""
    lab.server.kill()
    lab.server.start()
    assert lab.client.dbsize() == 0


def number(lab: Lab, word: str) -> int:
    return int(lab.client.get(lab.key(word)) or 0)


def leads_under(scheduler: SchedulerProcess, epoch: int) -> bool:
    return any(line.endswith(f" epoch={epoch}") for line in scheduler.lines("leading: "))


class Twice:
    """Epoch 1 given twice: to ``old``, frozen before a write, and to ``new``, which leads."""

    def __init__(self, lab: Lab) -> None:
        self.answered, self.refused = lab.folder / "answered", lab.folder / "refused"
        arm = lab.folder / "arm"
        lab.worker("q", slots=100)
        self.old = lab.scheduler(
            freeze="dispatch", arm=str(arm), answered=str(self.answered), refused=str(self.refused)
        )
        wait_until(lambda: leads_under(self.old, 1), "the first leads")
        seconds, _ = lab.client.time()
        self.at = (seconds + 1) * 1000
        wait_until(lambda: lab.client.time()[0] > seconds + 1, "its epoch is a second old")
        arm.touch()
        wait_until(self.old.frozen, "it freezes before a write")
        forget(lab)
        lab.worker("q", slots=100)
        self.new = lab.scheduler()
        wait_until(lambda: leads_under(self.new, 1), "another leads under the same epoch")
        wait_until(lambda: number(lab, "fence") == 1, "and writes")


def test_a_worker_remembers_an_epoch_that_was_given_twice(lab: Lab) -> None:
    """Its word makes the new leader run again, and the fence tells the two apart."""
    twice = Twice(lab)
    lab.store.renew(
        WorkerAnnouncement("witness", ("q",), 1, 0, epoch=1, epoch_since=twice.at), 3_600_000
    )
    wait_until(lambda: leads_under(twice.new, 2), "the new leader runs again")
    wait_until(lambda: number(lab, "fence") == 2, "and writes")
    twice.old.signal(signal.SIGCONT)
    wait_until(twice.answered.exists, "the late write is answered")
    assert twice.refused.exists()
    assert twice.new.lines("its epoch was in use before")


def test_without_a_witness_both_write_until_the_first_leader_is_back(lab: Lab) -> None:
    """The window that stays open, and the test above with its guard removed: nobody knows.

    It closes when the first leader finds its own epoch in another's hands.
    """
    twice = Twice(lab)
    lab.store.dispatch(1, ["q"], 0, 1)  # as the first leader would: it passes for the other
    twice.old.signal(signal.SIGCONT)
    wait_until(lambda: leads_under(twice.new, 3), "the new leader is elected anew")
    assert twice.old.lines("another leads under an epoch of ours")
    wait_until(lambda: number(lab, "fence") == 3, "and writes")
    with pytest.raises(FencedError):
        lab.store.dispatch(1, ["q"], 0, 1)
    assert twice.old.alive()


def test_a_standby_remembers_what_the_server_forgot(lab: Lab) -> None:
    """Epoch 7 was in force while it stood by; the next leader must not be one of 1 to 7."""
    assert lab.store.elect("former", 3_600_000, 6).epoch == 7
    standby = lab.scheduler()
    wait_until(lambda: lab.client.zcard(lab.key("standbys")), "it stands by")
    standby.signal(signal.SIGSTOP)
    wait_until(standby.frozen, "it is away for a while")
    forget(lab)
    fresh = lab.scheduler()
    wait_until(lambda: leads_under(fresh, 1), "one that knows nothing leads")
    standby.signal(signal.SIGCONT)
    wait_until(lambda: leads_under(fresh, 8), "it is elected anew, above them all")
    assert not standby.lines("leading: ")


def test_a_worker_starts_nothing_of_a_superseded_leader(cluster_of: Any, make_server: Any) -> None:
    """It was handed a task under epoch 41; the server forgot that, and obeys epoch 1.

    The task waits until a scheduler leads above 41, which the worker's word makes the next one do,
    and runs once.
    """
    cluster = cluster_of(make_server("redis"), policy="fifo")
    cluster.client.set(cluster.keys.name("epoch"), 40)
    first = cluster.scheduler()
    worker = cluster.worker("threads", 2)
    cluster.send("nap", 0.0)
    cluster.drain()
    first.kill()
    cluster.server.kill()
    cluster.server.start()
    cluster.submitted.clear()
    cluster.store.seed(cluster.store.settings)
    cluster.announced(worker)

    late = cluster.send("nap", 0.0)
    assert admit_all(cluster.store, 1) == 1
    assert cluster.store.dispatch(1, ["celery"], 10, 10).count == 1
    wait_until(
        lambda: "a superseded leader's deliveries are given back" in worker.log.read_text(),
        "the worker refuses it",
    )
    assert late not in cluster.runs()
    cluster.scheduler()
    wait_until(lambda: cluster.run_of(late), "it runs under the next leader")
    assert cluster.client.get(cluster.keys.name("fence")) == b"42"
    cluster.assert_clean()


@pytest.mark.parametrize("kind", ["valkey", "redis"])
def test_nobody_leads_by_a_grant_that_no_replica_has(
    kind: str, make_server: Callable[..., Any], namespace: str, tmp_path: Path
) -> None:
    """With ``leader_replicas``: the lease stays free, and is granted when a replica follows."""
    server = make_server(kind, config={"repl-diskless-sync-delay": "0"})
    lab = Lab(server, namespace, tmp_path, leader_replicas=1)
    try:
        started = time.monotonic()
        schedulers = [lab.scheduler(), lab.scheduler()]
        for each in schedulers:
            wait_until(lambda: each.lines("NOREPLICAS 0 of 1 replicas"), "it tries")  # noqa: B023
        lab.worker("q")
        lab.submit(10)
        replica = make_server(kind)
        with closing(replica.client()) as client:
            client.replicaof("127.0.0.1", server.port)
        lab.leader()
        lab.wait_dispatched(10)
        lab.check_once()
        assert sum(len(each.lines("leading: ")) for each in schedulers) == 1
        for each in schedulers:
            assert len(each.lines("NOREPLICAS")) <= time.monotonic() - started + 1
    finally:
        lab.close()
