"""Whatever arrives, the worker lives, the delivery is buried with its bytes, and work goes on.

celery/celery #1113: one broken message ended five of seven workers.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from celery.exceptions import TimeoutError as GetTimeoutError

from tests.waiting import wait_until
from tq_celery.store.contract import Limits, Submission
from tq_celery.store.record import DELIVERY, TaskKey
from tq_celery.store.redis_store import RedisStore

GOOD: dict[str, Any] = {
    "body": "[[], {}, {}]",
    "content-type": "application/json",
    "content-encoding": "utf-8",
    "headers": {"task": "noop", "id": "bad"},
    "properties": {},
}


def with_headers(**headers):
    return json.dumps({**GOOD, "headers": {**GOOD["headers"], **headers}}).encode()


def buried(lab, count):
    return len(lab.dead()) == count


PAYLOADS = {
    "garbage": b"\xff\xfe",
    "truncated JSON": json.dumps(GOOD).encode()[:-9],
    "another object": b'{"a":1}',
    "headers are a list": json.dumps({**GOOD, "headers": []}).encode(),
    "priority is text": json.dumps({**GOOD, "properties": {"priority": "abc"}}).encode(),
    "eta is no date": with_headers(eta="not-a-date"),
    "expires is no date": with_headers(expires="not-a-date"),
    "pickle": json.dumps({**GOOD, "content-type": "application/x-python-serialize"}).encode(),
    "unknown task": with_headers(task="nobody.knows"),
    "body is not base64": json.dumps(
        {**GOOD, "body": "%%%", "properties": {"body_encoding": "base64"}}
    ).encode(),
    "body is not JSON": json.dumps({**GOOD, "body": "[["}).encode(),
    "body is no triple": json.dumps({**GOOD, "body": "{}"}).encode(),
    "time limits are text": with_headers(timelimit="soon"),
    "retries are text": with_headers(retries="many"),
    "nothing": b"",
    "null": b"null",
}


@pytest.mark.parametrize(
    "pool",
    ["threads", *(pytest.param(p, marks=pytest.mark.slow) for p in ("prefork", "solo", "gevent"))],
)
def test_every_broken_message_is_buried_and_work_goes_on(worker_lab, pool):
    lab = worker_lab()
    worker = lab.worker(pool)
    store = RedisStore.open(lab.settings)
    for number, (what, payload) in enumerate(PAYLOADS.items(), 1):
        store.submit(
            Submission(TaskKey(f"bad-{number}"), "celery", b"default", payload, b"d" * 16), Limits()
        )
        assert lab.send("add", 1, number).get(timeout=30) == number + 1, what
        wait_until(partial(buried, lab, number), f"{what} is buried")
        letter = lab.dead()[-1]
        assert letter[b"payload"] == payload, what
        assert letter[b"queue"] == b"celery", what
        assert letter[b"reason"], what
        assert worker.alive, what
    store.close()
    assert lab.outcomes()["dead"] == len(PAYLOADS)
    wait_until(lambda: not lab.client.xlen(lab.keys.of_queue("obituary", "celery")), "obituaries")
    lab.idle()


def test_unreadable_entries_and_lost_payloads_are_buried(worker_lab):
    lab = worker_lab()
    worker = lab.worker("threads")
    stream = lab.keys.of_queue("exec", "celery")
    lab.client.xadd(stream, {"x": "y"})
    lab.client.xadd(stream, {"d": b"short"})
    lab.client.xadd(stream, {"d": DELIVERY.pack(1, 0) + b"0.0.0.nobody"})
    wait_until(lambda: len(lab.dead()) == 3, "all are in the dead-letter stream")
    assert lab.send("add", 1, 1).get(timeout=30) == 2
    assert worker.alive
    wait_until(lambda: not lab.client.xlen(stream), "nothing is left in the stream")


@pytest.mark.slow
def test_a_callers_get_ends_for_an_unknown_task(worker_lab):
    lab = worker_lab()
    lab.worker("threads")
    store = RedisStore.open(lab.settings)
    payload = with_headers(task="nobody.knows", id="lost")
    store.submit(Submission(TaskKey("lost"), "celery", b"default", payload, b"d" * 16), Limits())
    store.close()
    result = lab.app.AsyncResult("lost")
    try:
        with pytest.raises(Exception, match="nobody.knows"):
            result.get(timeout=30)
    except GetTimeoutError:
        pytest.fail("get() did not end")


@pytest.mark.slow
def test_a_deleted_group_and_stream_are_made_again(worker_lab):
    """ag2ai/faststream #2611: NOGROUP for ever after the keys were lost."""
    lab = worker_lab()
    worker = lab.worker("threads")
    assert lab.send("add", 1, 1).get(timeout=30) == 2
    lab.client.xgroup_destroy(lab.keys.of_queue("exec", "celery"), "workers")
    assert lab.send("add", 1, 2).get(timeout=30) == 3
    lab.client.delete(lab.keys.of_queue("exec", "celery"))
    assert lab.send("add", 1, 3).get(timeout=30) == 4
    lab.client.script_flush()
    assert lab.send("add", 1, 4).get(timeout=30) == 5
    lab.client.flushall()
    wait_until(lab.announced, "the worker announces itself again")
    assert lab.send("add", 1, 5).get(timeout=30) == 6
    assert worker.alive
