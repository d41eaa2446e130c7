"""Bytes that nobody can read, put straight into each structure (celery/celery #1113).

One message that could not be decoded ended 5 of 7 workers, because the error left the loop that
consumes, and the message waited for the next worker. Here every variant is put where the leader,
the worker or both meet it, followed by one good task.
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Any

import pytest

from tests.chaos.cluster import Cluster
from tests.waiting import BUSY, wait_until
from tq_celery.store.record import DELAYED, DELIVERY, RECORD, TaskKey

pytestmark = pytest.mark.slow

#: What the public report and its kin sent, as bytes of a message.
MESSAGES = [
    b"",
    b"\xff\xfe",
    b'{"body": "trunc',
    b'{"a":1}',
    b"[]",
    b"null",
    json.dumps({"body": 1, "headers": [], "properties": {}}).encode(),
    json.dumps({"body": "not base64!", "headers": {"task": "noop", "id": "x"},
                "properties": {"body_encoding": "base64", "priority": "abc"},
                "content-type": "application/json", "content-encoding": "binary"}).encode(),
    json.dumps({"body": "gAR9lC4=", "headers": {"task": "noop", "id": "x", "eta": "not-a-date"},
                "properties": {}, "content-type": "application/x-python-serialize",
                "content-encoding": "binary"}).encode(),
    json.dumps({"body": "[[], {}, {}]", "headers": {"task": "no.such.task", "id": "x"},
                "properties": {}, "content-type": "application/json",
                "content-encoding": "utf-8"}).encode(),
    b"\x00" * 100_000,
]  # fmt: skip


def _record(
    key: bytes, *, cost: float = 1.0, deadline: int = 2**53 - 1, arrival: int = 0, attempts: int = 0
) -> bytes:
    return RECORD.pack(arrival, 0, cost, 0, deadline, 1, 0, attempts, 0) + key


def _member(queue: bytes, tenant: bytes, record: bytes) -> bytes:
    return DELAYED.pack(255, len(queue), len(tenant)) + queue + tenant + record


#: Members of ingress and of the delayed set: raw bytes, then well packed with senseless values.
MEMBERS = [
    *MESSAGES,
    _member(b"celery", b"t", b""),
    _member(b"celery", b"t", b"short"),
    _member(b"", b"t", _record(b"0.0.0.id")),
    _member(b"\xff\xfe", b"t", _record(b"0.0.0.id")),
    DELAYED.pack(255, 60_000, 60_000) + b"celery",
    _member(b"celery", b"t", _record(b"0.0.0.nan", cost=float("nan"))),
    _member(b"celery", b"t", _record(b"0.0.0.inf", cost=float("inf"))),
    _member(b"celery", b"t", _record(b"0.0.0.negative", cost=-5.0)),
    _member(b"celery", b"t", _record(b"0.0.0.deadline", deadline=2**64 - 1)),
    _member(b"celery", b"t" * 300, _record(b"0.0.0.tenant")),
]


def _buried(cluster: Cluster) -> int:
    return int(cluster.client.xlen(cluster.keys.name("dead")))


def _has_buried(cluster: Cluster, count: int) -> bool:
    return _buried(cluster) == count


def _unreadable(cluster: Cluster) -> int:
    counters = cluster.client.hgetall(cluster.keys.name("counters"))
    return sum(int(n) for name, n in counters.items() if name.startswith(b"unreadable:"))


def _good_task(cluster: Cluster, after: str) -> None:
    started = time.monotonic()
    task_id = cluster.send("nap", 0.0, tenant="t")
    wait_until(lambda: cluster.runs()[task_id], f"a good task runs after {after}")
    assert time.monotonic() - started < 1.0 + BUSY, after


def _put(cluster: Cluster, where: str, raw: bytes) -> None:
    client, name = cluster.client, cluster.keys.name
    if where == "ingress":
        client.xadd(name("ingress"), {"d": raw})
    elif where == "ingress fields":
        client.xadd(name("ingress"), {b"x" + raw[:9]: raw, "d": b"1"})
    elif where == "exec":
        client.xadd(cluster.keys.of_queue("exec", "celery"), {"d": raw})
    elif where == "exec fields":
        client.xadd(cluster.keys.of_queue("exec", "celery"), {b"x" + raw[:9]: raw})
    else:
        client.zadd(name("delayed"), {raw: 0})
        client.xadd(name("wake"), {"k": "delayed"})


@pytest.mark.parametrize("where", ["ingress", "ingress fields", "exec", "exec fields", "delayed"])
def test_garbage(where: str, cluster_of: Any, make_server: Any) -> None:
    """Every variant is buried with its bytes and a reason, counted, and holds up nobody.

    Seen to fail in ``delayed`` when an unreadable member raised in ``due``, and in ``ingress`` when
    a cost that is no number reached the script.
    """
    cluster = cluster_of(make_server("redis"), policy="wfq", ttl=8.0)
    scheduler = cluster.scheduler()
    worker = cluster.worker("threads", 2)
    _good_task(cluster, "the start")
    epoch = cluster.store.client.get(cluster.keys.name("epoch"))
    members = (
        MEMBERS if where in ("ingress", "delayed") else [*MESSAGES, DELIVERY.pack(1, 0) + b"k"]
    )
    for count, raw in enumerate(members, 1):
        _put(cluster, where, raw)
        _good_task(cluster, f"{where} {raw[:40]!r}")
        wait_until(partial(_has_buried, cluster, count), f"{raw[:40]!r} is buried")
        letter = cluster.client.xrevrange(cluster.keys.name("dead"), count=1)[0][1]
        assert letter[b"reason"], raw[:40]
        assert raw in letter.values() or (where == "delayed" and letter[b"raw_member"] == raw)
        assert _unreadable(cluster) == count
    assert scheduler.alive
    assert worker.alive
    assert cluster.client.get(cluster.keys.name("epoch")) == epoch, "the leader has changed"
    cluster.assert_clean()


def test_all_the_garbage_at_once(cluster_of: Any, make_server: Any) -> None:
    """In one batch with good tasks of the same tenant, which all run once."""
    cluster = cluster_of(make_server("valkey"), policy="wfq")
    for turn in range(60):
        cluster.send("nap", 0.0, tenant="t", countdown=0.05 if turn % 2 else None)
        raw = MEMBERS[turn % len(MEMBERS)]
        _put(cluster, ("ingress", "delayed")[turn // len(MEMBERS) % 2], raw + b"" * turn)
    scheduler = cluster.scheduler()
    cluster.worker("threads", 4)
    cluster.assert_clean()
    assert set(cluster.runs().values()) == {1}
    assert scheduler.alive


def test_garbage_in_the_hands_of_a_lost_worker(cluster_of: Any, make_server: Any) -> None:
    """A worker dies before it could bury what it read: the next one does, and nothing stays."""
    cluster = cluster_of(make_server("redis"), lease=1.0)
    cluster.scheduler()
    dead = cluster.worker("solo", 1)
    cluster.send("nap", 0.0)
    cluster.assert_clean()
    dead.signal(19)  # SIGSTOP: its blocked read is still served by the server
    for raw in MESSAGES:
        _put(cluster, "exec", raw)
    time.sleep(0.2)
    dead.kill()
    cluster.worker("threads", 2)
    wait_until(lambda: _buried(cluster) == len(MESSAGES), "all are buried")
    _good_task(cluster, "the garbage")
    cluster.assert_clean()


def test_a_payload_that_was_changed(cluster_of: Any, make_server: Any) -> None:
    """The stored message of an accepted task is overwritten: the task ends as dead, once."""
    cluster = cluster_of(make_server("redis"), backend=True)
    cluster.scheduler()
    ids = []
    for raw in MESSAGES:
        ids.append(cluster.send("add", 1, 2))
        cluster.client.hset(
            cluster.keys.name("payload"), TaskKey(ids[-1]).encode(), b"0" * 16 + raw
        )
    lost = cluster.send("add", 1, 2)
    cluster.client.hdel(cluster.keys.name("payload"), TaskKey(lost).encode())
    cluster.worker("threads", 2)
    good = cluster.send("add", 1, 2)
    assert cluster.app.AsyncResult(good).get(timeout=30) == 3
    cluster.assert_clean()
    counters = cluster.counters()
    assert counters["dead"] + counters["failed"] == len(MESSAGES) + 1
    for task_id in (*ids, lost):
        wait_until(cluster.app.AsyncResult(task_id).failed, "the caller learns of it")


def test_garbage_that_recovery_meets(cluster_of: Any, make_server: Any) -> None:
    """Senseless run records and queue names do not keep lost workers' tasks from coming back.

    Seen to fail: one script error broke the contact of the scheduler, which then recovered nothing.
    """
    cluster = cluster_of(make_server("valkey"), lease=1.0)
    cluster.scheduler()
    doomed = cluster.worker("threads", 2)
    ids = [cluster.send("nap", 6.0) for _ in range(2)]
    wait_until(lambda: len(cluster.runs()) == 2, "both run")
    running = cluster.keys.of_queue("running", "celery")
    junk = {"99-9": b"junk", "99-8": b"", "junk": b"\xff" * 30, "97-0": b"\xff" * 69}
    cluster.client.hset(running, mapping=junk)
    cluster.client.sadd(cluster.keys.name("queues"), b"\xff\xfe")
    # a queue whose stream is no stream: its script fails each time
    cluster.client.sadd(cluster.keys.name("queues"), "broken")
    cluster.client.set(cluster.keys.of_queue("running", "broken"), "no hash")
    time.sleep(1.5)
    doomed.kill()
    cluster.worker("threads", 2)
    wait_until(lambda: all(cluster.runs()[task] == 2 for task in ids), "both run again")
    cluster.client.hdel(running, *junk)
    cluster.client.srem(cluster.keys.name("queues"), b"\xff\xfe", "broken")
    cluster.client.delete(cluster.keys.of_queue("running", "broken"))
    cluster.assert_clean()
