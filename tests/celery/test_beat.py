"""``celery beat`` sends scheduled tasks with everything that its entries say."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.celery.worker_lab import ROOT, WorkerLab
from tests.waiting import wait_until

#: One entry of each kind: a decorated task with options, one by name, and one that is not ours.
SCHEDULE: dict[str, Any] = {
    "decorated": {
        "task": "attempt",
        "schedule": 0.5,
        "args": ["beat", 0],
        "options": {"tenant": "acme", "priority": 7, "cost": 2.5, "deadline": 60, "expires": 30},
    },
    "late": {"task": "add", "schedule": 0.5, "args": [1, 2], "options": {"expires": -1}},
    "by name": {"task": "elsewhere.clean", "schedule": 0.5, "kwargs": {"of": "initech"}},
}


def beat(lab: WorkerLab) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-m", "celery", "-A", "tests.celery.worker_main", "beat",
        "-s", str(lab.folder / "schedule"), "--pidfile=", "-l", "info",
    ]  # fmt: skip
    environ = {**os.environ, **lab.environ, "PYTHONPATH": str(ROOT)}
    with (lab.folder / "beat.log").open("w") as output:
        return subprocess.Popen(
            command, env=environ, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT
        )


def test_beat_sends_what_its_entries_say(worker_lab) -> None:
    """Seen to fail without the options of an entry, and without the route."""
    routes = {"elsewhere.*": {"tenant": "of"}}
    lab = worker_lab(conf={"beat_schedule": SCHEDULE, "tq_routes": routes})
    lab.worker("threads")
    process = beat(lab)
    try:
        wait_until(
            lambda: all(
                lab.outcomes().get(end, 0) >= 2 for end in ("completed", "expired", "dead")
            ),
            "two rounds",
            last=lab.outcomes,
        )
    finally:
        process.terminate()
        process.wait(30)
    records = lab.settled(6)

    def found(outcome: str, *names: str) -> set[tuple[str, ...]]:
        return {
            tuple(record[name] for name in names)
            for record in records
            if record["outcome"] == outcome
        }

    assert found("completed", "tenant", "priority", "cost") == {("acme", "7", "2.5")}
    assert found("expired", "tenant") == {("default",)}
    assert found("dead", "tenant") == {("initech",)}
    for record in records:
        if record["outcome"] == "completed":
            # the deadline counts from the time of the sending, not of the start of beat
            assert 59_000 < int(record["deadline"]) - int(record["submitted"]) <= 60_000
            assert lab.app.AsyncResult(record["id"]).get(timeout=30) == 0


@pytest.mark.slow
def test_beat_goes_on_when_the_store_was_away(worker_lab, make_server) -> None:
    """An entry that cannot be sent is logged and comes again at its next time.

    Stock beat does the same while its broker is away. Seen to fail with a store that stays away.
    """
    store = make_server("valkey")
    schedule = {"one": {**SCHEDULE["decorated"], "options": {"tenant": "acme"}}}
    lab = worker_lab(store=store, conf={"beat_schedule": schedule}, publish_timeout=0.5)
    process = beat(lab)
    log = lab.folder / "beat.log"
    waiting = lab.keys.name("payload")
    try:
        wait_until(lambda: lab.client.hlen(waiting), "a first task")
        store.stop()
        wait_until(lambda: "OperationalError" in log.read_text(), "an entry that failed")
        store.start()
        wait_until(lambda: lab.client.hlen(waiting), "a task after the return")
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(30)
