"""What a worker logs: JSON on request, the task by id, name and tenant, its arguments never."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.celery.test_worker_bad_input import GOOD
from tests.waiting import wait_until
from tq_celery.store.contract import Limits, Submission
from tq_celery.store.record import TaskKey
from tq_celery.store.redis_store import RedisStore

SECRET = "4711-secret"

BROKEN: dict[str, dict[str, Any]] = {
    "unknown": {"headers": {"task": "nobody.knows"}},
    "invalid": {"headers": {"timelimit": ["soon", None]}},
    "no-triple": {"body": json.dumps({"x": SECRET})},
    "not-json": {"body": f"[[{SECRET}"},
}


def broken(task_id: str, body: str | None = None, headers: Any = None) -> Submission:
    """Return a message that cannot run, with the secret in its body."""
    message = {
        **GOOD,
        "body": body or json.dumps([[SECRET], {}, {}]),
        "headers": {
            "task": "noop", "id": task_id, "argsrepr": SECRET, "tq": {"tenant": "acme"},
            **(headers or {}),
        },
    }  # fmt: skip
    return Submission(TaskKey(task_id), "celery", b"acme", json.dumps(message).encode(), b"d" * 16)


@pytest.mark.parametrize(
    "pool", ["threads", *(pytest.param(p, marks=pytest.mark.slow) for p in ("prefork", "gevent"))]
)
def test_every_line_is_json_with_its_task_and_no_argument(worker_lab, pool):
    """Seen to fail with Celery's own lines for unknown and invalid tasks, which show the body, and
    with its lines about ends, which say no tenant.
    """
    lab = worker_lab(log_format="json", conf={"worker_hijack_root_logger": True})
    worker = lab.worker(pool)
    store = RedisStore.open(lab.settings)
    for task_id, parts in BROKEN.items():
        store.submit(broken(task_id, **parts), Limits())
    store.close()
    done = lab.send("nap", 0, SECRET, tenant="acme")
    failed = lab.send("fail", tenant="acme")
    assert done.get(timeout=30) == SECRET
    with pytest.raises(ValueError, match="as asked"):
        failed.get(timeout=30)
    wait_until(lambda: len(lab.dead()) == len(BROKEN), "the broken ones are buried")
    worker.terminate()
    # the banner and the word of the shutdown are printed, not logged
    logged = [line for line in worker.text().splitlines() if line.startswith(("{", "[20"))]
    first = next(number for number, line in enumerate(logged) if line.startswith("{"))
    lines = [json.loads(line) for line in logged[first:]]
    told = {(line["message"], line.get("task_id")): line for line in lines}

    unknown = told["Received unregistered task of type", "unknown"]
    assert (unknown["level"], unknown["task_name"], unknown["tenant"], unknown["queue"]) == (
        "error", "nobody.knows", "acme", "celery",
    )  # fmt: skip
    invalid = told["received an invalid task message", "invalid"]
    assert (invalid["task_name"], invalid["error"]) == (
        "noop", "ValueError: time limit 'soon' is not a number",
    )  # fmt: skip
    received = told[f"Task nap[{done.id}] received", done.id]
    assert (received["task_name"], received["tenant"]) == ("nap", "acme")
    ended = next(line for line in lines if f"Task fail[{failed.id}] raised" in line["message"])
    assert (ended["task_id"], ended["task_name"], ended["tenant"]) == (failed.id, "fail", "acme")
    assert ended["traceback"].endswith("ValueError: as asked")
    succeeded = next(line for line in lines if f"Task nap[{done.id}] succeeded" in line["message"])
    assert (succeeded["task_name"], succeeded["tenant"]) == ("nap", "acme")
    # Celery shows the result of a task, which is the argument here
    others = [line for line in lines if f"Task nap[{done.id}] succeeded" not in line["message"]]
    assert [line for line in others if SECRET in json.dumps(line)] == []


@pytest.mark.slow
def test_handlers_of_the_application_keep_their_format(worker_lab):
    lab = worker_lab(log_format="json", conf={"worker_hijack_root_logger": True})
    lab.main = "tests.celery.worker_own_log"
    worker = lab.worker("threads")
    assert lab.send("add", 1, 1).get(timeout=30) == 2
    worker.terminate()
    assert "OWN INFO Task add[" in worker.text()
