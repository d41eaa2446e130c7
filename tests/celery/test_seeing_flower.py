"""mher/flower #473 and kin: Flower shows scheduled tasks like any other, and no page fails."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.celery.seeing_lab import seeing_lab
from tests.waiting import wait_until
from tq_celery.embedded import free_port

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("command", ["flower", "tq flower"])
def test_flower_shows_scheduled_tasks_like_any_other(tmp_path: Path, command: str) -> None:
    """Every page and the API of a real Flower, with running, delayed and ended tasks."""
    with seeing_lab(tmp_path) as lab:
        lab.workers("one")
        lab.environ["FLOWER_UNAUTHENTICATED_API"] = "true"
        port = free_port()
        log = lab.run("flower", *command.split(), "--address=127.0.0.1", f"--port={port}")

        def get(path: str) -> str:
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
            with urllib.request.urlopen(request, timeout=20) as reply:
                return str(reply.read().decode())

        def answers() -> bool:
            try:
                return bool(get("/api/workers"))
            except (urllib.error.HTTPError, urllib.error.URLError, OSError):
                return False

        wait_until(answers, f"Flower answers: {log}", interval=0.2)
        wait_until(lambda: "one@seen" in json.loads(get("/api/workers?refresh=1")), "worker")

        ended = {
            family: (lab.send(f"{family}.add", 1, 2), lab.send(f"{family}.fail"))
            for family in ("tq", "stock")
        }
        delayed = [lab.send("tq.add", number, 1, countdown=600) for number in range(7)]
        running = lab.send("tq.hold")

        def tasks() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(get("/api/tasks?limit=100"))
            return found

        def state(result: Any) -> str | None:
            found: str | None = tasks().get(result.id, {}).get("state")
            return found

        for good, bad in ended.values():
            wait_until(lambda g=good: state(g) == "SUCCESS", "it succeeded", interval=0.1)  # type: ignore[misc]
            wait_until(lambda b=bad: state(b) == "FAILURE", "it failed", interval=0.1)  # type: ignore[misc]
        wait_until(lambda: state(running) == "STARTED", "it runs", interval=0.1)

        shown = tasks()
        ours, stock = (shown[ended[family][0].id] for family in ("tq", "stock"))
        assert set(ours) == set(stock)
        for field in ("args", "kwargs", "result", "worker", "retries", "state", "exchange"):
            assert ours[field] == stock[field], field
        assert all(shown[each.id]["state"] in ("PENDING", "SENT") for each in delayed)

        def looked_at() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(get("/api/workers?refresh=1&workername=one@seen"))[
                "one@seen"
            ]
            return found if {"stats", "active", "scheduled"} <= set(found) else {}

        worker = wait_until(looked_at, "Flower has asked the worker", interval=0.2)
        assert worker["stats"]["tq"]["namespace"] == "seen"
        assert worker["active"][0]["id"] == running.id
        listed = {each["request"]["id"] for each in worker["scheduled"]}
        assert listed == {each.id for each in delayed}
        queues = json.loads(get("/api/queues/length"))
        assert [queue["name"] for queue in queues["active_queues"]] == ["celery"]
        assert queues["active_queues"][0]["messages"] == 0, "nothing waits to be started"
        if command == "tq flower":
            scheduled = queues["active_queues"][0]["scheduled"]
            assert scheduled == {"waiting": 0, "delayed": 7, "in_flight": 1}
            shown = json.loads(get("/scheduler/data"))
            assert (shown["leader"]["owner"], shown["workers"][0]["worker"]) == (
                lab.scheduler.owner, json.loads(get("/api/tq/workers"))["workers"][0]["worker"],
            )  # fmt: skip
            served = {each["tenant"]: each for each in shown["tenants"]}["default"]
            assert (served["live"], served["served"]) == (8, 2)

        pages = ["/", "/workers", "/tasks", "/broker", "/worker/one@seen", "/api/task/types"]
        pages += [f"/task/{each.id}" for each in (*ended["tq"], running, delayed[0])]
        for page in pages:
            assert get(page), page
        for result in (ended["tq"][0], ended["stock"][0]):
            assert result.id in get(f"/task/{result.id}")
        info = json.loads(get(f"/api/task/info/{ended['tq'][1].id}"))
        assert "ValueError" in info["exception"]
        assert " 500 " not in log.read_text()
