"""In a real worker: a scheduled task finds in its request what a stock task finds there."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.celery.worker_lab import WorkerLab

LATER = datetime.now(UTC) + timedelta(hours=1)
CALLS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "headers": {"headers": {"mine": "x"}, "shadow": "a look"},
    "limits": {"time_limit": 30, "soft_time_limit": 20, "expires": LATER},
    "group": {"group_id": "g", "group_index": 2, "root_id": "r", "parent_id": "p"},
    "retried": {"retries": 2, "correlation_id": "c", "priority": 5},
    "stamped": {"stamped_headers": ["tenant", "why"], "tenant": "acme", "why": ["a"]},
    "pickled": {"serializer": "pickle", "compression": "zlib", "user_id": "guest"},
    "delayed": {"countdown": 0.3},
    "linked": {"link": "collect"},
}
#: What belongs to one delivery, or to the transport.
OWN = {
    "id", "hostname", "task", "delivery_tag", "delivery_mode", "body_encoding", "tq", "tq_token",
    "tq_key", "correlation_id", "eta", "delivery_info", "expiration",
}  # fmt: skip


def cleaned(found: Any) -> Any:
    """Return a request without what differs between any two messages."""
    if isinstance(found, dict):
        left = {k: cleaned(v) for k, v in found.items() if k not in OWN}
        return {k: None if k == "headers" and v == {} else v for k, v in left.items()}
    if isinstance(found, list):
        return [cleaned(each) for each in found]
    return found


def request_of(lab: WorkerLab, name: str, options: dict[str, Any]) -> dict[str, Any]:
    options = dict(options)
    if "link" in options:
        # An immutable signature of a stock task, frozen so that both calls have the same in them.
        options["link"] = lab.app.tasks["collect"].si().set(task_id="linked", headers={"tq": {}})
    result = lab.app.tasks[name].apply_async((1,), {"y": 2}, **options)
    found: dict[str, Any] = json.loads(result.get(timeout=30))
    assert found["id"] == result.id
    expected = options.get("correlation_id", result.id)
    assert found["correlation_id"] == expected
    assert found["delivery_info"]["priority"] == options.get("priority", 0)
    assert found["delivery_info"]["routing_key"] == "celery"
    found["root_is_own"] = found.pop("root_id") == result.id
    return found


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_task_finds_what_a_stock_task_finds(worker_lab: Any, pool: str) -> None:
    """Seen to fail with a stamp that was taken for an option."""
    lab = worker_lab(conf={"accept_content": ["json", "pickle"]})
    lab.worker(pool)
    for case, options in CALLS.items():
        scheduled = request_of(lab, "look", options)
        stock = request_of(lab, "stock_look", options)
        assert cleaned(scheduled) == cleaned(stock), case
    assert scheduled["headers"]["tq"]["tenant"] == "default"
    stamped = request_of(lab, "look", CALLS["stamped"])
    assert stamped["stamps"] == {"tenant": "acme", "why": ["a"]}
