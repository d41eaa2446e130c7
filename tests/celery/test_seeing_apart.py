"""What monitoring does when the store is away, under every pool, and with Celery's own monitors."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.celery.seeing_lab import seeing_lab
from tests.celery.seeing_tasks import SHOTS
from tests.servers import ValkeyServer
from tests.waiting import BUSY, wait_until

pytestmark = pytest.mark.slow


def test_inspecting_goes_on_while_the_store_is_away(tmp_path: Path) -> None:
    """Frozen and then gone: an answer comes at once, shorter, and the log says why.

    Seen to fail with a look that waited as long as a submission does.
    """
    with ValkeyServer() as other:
        base = f"redis://127.0.0.1:{other.port}"
        with seeing_lab(tmp_path, broker=f"{base}/1", backend=f"{base}/2") as lab:
            log = lab.workers("one")
            lab.send("tq.add", 1, 1, countdown=60)
            lab.send("stock.add", 1, 1, countdown=60)
            wait_until(lambda: len(lab.inspect("scheduled")["one@seen"]) == 2, "both listed")
            lab.store.pause()
            try:
                for away in ("frozen", "still frozen"):
                    started = time.monotonic()
                    (listed,) = lab.inspect("scheduled")["one@seen"]
                    assert listed["request"]["name"] == "stock.add"
                    assert time.monotonic() - started < 1.0 + BUSY, away
                started = time.monotonic()
                section = lab.inspect("stats")["one@seen"]["tq"]
                assert section["scheduler"] is None
                assert section["namespace"] == "seen"
                assert time.monotonic() - started < 1.0 + BUSY
            finally:
                lab.store.resume()
            assert 'inspect shows less: missing="delayed tasks"' in log.read_text()

            def both_again() -> bool:
                return len(lab.inspect("scheduled")["one@seen"]) == 2

            wait_until(both_again, "the store is back", interval=0.5)
            lab.store.halt()
            wait_until(
                lambda: not lab.inspect("stats")["one@seen"]["tq"]["store_answers"],
                "it says so",
            )
            assert len(lab.inspect("scheduled")["one@seen"]) == 1
            assert lab.inspect("ping")["one@seen"] == {"ok": "pong"}


@pytest.mark.parametrize("pool", ["prefork", "solo", "gevent"])
def test_every_pool_lists_what_is_delayed(tmp_path: Path, pool: str) -> None:
    with seeing_lab(tmp_path) as lab:
        lab.workers("one", pool=pool)
        delayed = lab.send("tq.add", 1, 1, countdown=60)
        (listed,) = wait_until(
            lambda: lab.inspect("scheduled").get("one@seen") or [], "it is listed"
        )
        assert listed["request"]["id"] == delayed.id
        assert lab.inspect("stats")["one@seen"]["tq"]["scheduler"] is True
        assert lab.send("tq.add", 1, 1).get(timeout=30) == 2


def test_each_worker_answers_for_queues_that_only_it_consumes(tmp_path: Path) -> None:
    with seeing_lab(tmp_path) as lab:
        lab.workers("one", options=("-Q", "celery,left"))
        lab.workers("two", options=("-Q", "celery,right"))
        sent = {
            queue: lab.send("tq.add", 1, 1, countdown=60, queue=queue).id
            for queue in ("celery", "left", "right", "nobodys")
        }
        listed: dict[str, set[str]] = {}

        def all_listed() -> bool:
            answers: dict[str, Any] = lab.inspect("scheduled")
            listed.update(
                (name, {each["request"]["id"] for each in answer})
                for name, answer in answers.items()
            )
            return sum(map(len, listed.values())) >= 3

        # a listing that takes too long on a busy machine is left out of an answer
        wait_until(all_listed, "the delayed tasks are listed")
        assert sent["left"] in listed["one@seen"]
        assert sent["right"] in listed["two@seen"]
        assert sorted([*listed["one@seen"], *listed["two@seen"]]) == sorted(
            sent[queue] for queue in ("celery", "left", "right")
        ), "each once; a queue that no worker consumes has nobody to answer for it"


def test_the_snapshot_camera_of_celery_events_sees_scheduled_tasks(tmp_path: Path) -> None:
    with seeing_lab(tmp_path) as lab:
        shots = tmp_path / "shots"
        lab.environ[SHOTS] = str(shots)
        lab.workers("one")
        lab.run(
            "camera", "events", "-c", "tests.celery.seeing_tasks:Camera", "-F", "0.2", "-l", "info"
        )

        def last() -> dict[str, list[str]]:
            lines = shots.read_text().splitlines() if shots.exists() else []
            return json.loads(lines[-1]) if lines else {}

        # events from before it listens are on no picture
        wait_until(lambda: lab.send("tq.quiet") and last(), "the camera sees tasks", interval=0.5)
        good, bad = lab.send("tq.add", 1, 2), lab.send("tq.fail")

        wanted = {good.id: ["tq.add", "SUCCESS"], bad.id: ["tq.fail", "FAILURE"]}
        wait_until(lambda: wanted.items() <= last().items(), "both on a picture")
