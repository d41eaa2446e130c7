"""What an application hooks into its worker goes on for scheduled tasks, as for ordinary ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from celery.contrib.abortable import AbortableAsyncResult

from tests.celery import hooks_main
from tests.celery.worker_lab import ROOT, WorkerLab
from tests.celery.worker_tasks import RUNS
from tests.servers import ValkeyServer
from tests.waiting import wait_until
from tq_celery.errors import UnsupportedTaskError

NOTED = {"description": "annotated", "time_limit": 17}
CONF = {"task_annotations": {"scheduled": NOTED, "ordinary": NOTED}}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerLab]:
    with ValkeyServer() as server:
        made = WorkerLab(server, tmp_path_factory.mktemp("lab"), conf=CONF)
        made.main = "tests.celery.hooks_main"
        hooks_main.add(made.app)
        try:
            made.worker("threads")
            yield made
        finally:
            made.close()


def hooks(lab: WorkerLab) -> list[dict[str, Any]]:
    with redis.Redis.from_url(lab.environ[RUNS], protocol=2) as client:
        return [json.loads(raw) for raw in client.lrange("hooks", 0, -1)]


#: How a task ends, and the last signal about it.
ENDINGS = {
    "end": "task_postrun", "fail": "task_postrun", "retry": "task_success",
    "reject": "task_postrun", "expired": "task_revoked", "unknown": "task_unknown",
}  # fmt: skip


@pytest.mark.parametrize("how", ENDINGS)
def test_signals_come_as_for_an_ordinary_task(lab: WorkerLab, how: str) -> None:
    """Seen to fail with ``task_received`` left out."""
    for kind in ("scheduled", "ordinary"):
        options = {"tenant": "acme"} if kind == "scheduled" else {}
        name = "nowhere" if how == "unknown" else kind
        task_id, expires = f"{kind}-{how}", -1 if how == "expired" else None
        lab.app.send_task(name, [how], task_id=task_id, expires=expires, **options)

    def of(kind: str) -> list[tuple[str, tuple[str, ...]]]:
        mine = [hook for hook in hooks(lab) if hook.get("id") == f"{kind}-{how}"]
        # a stock retry is received before the signals of its first try are all out
        return sorted((hook["kind"], tuple(hook["fields"])) for hook in mine)

    def same() -> bool:
        seen = of("scheduled")
        return any(kind == ENDINGS[how] for kind, _ in seen) and of("ordinary") == seen

    wait_until(same, f"the same signals of both, up to {ENDINGS[how]}")


def test_annotations_are_attributes_of_the_task(lab: WorkerLab) -> None:
    results = [lab.app.tasks[kind].delay("end") for kind in ("scheduled", "ordinary")]
    assert [result.get(timeout=30) for result in results] == [["annotated", 17]] * 2


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")
def test_an_abortable_task_is_aborted(lab: WorkerLab) -> None:
    result = lab.app.tasks["abortable"].delay()
    wait_until(lambda: any(hook["kind"] == "running" for hook in hooks(lab)), "it runs")
    AbortableAsyncResult(result.id, app=lab.app).abort()
    assert result.get(timeout=30) == "aborted"


def test_a_step_of_the_applications_own_starts(lab: WorkerLab) -> None:
    assert any(hook["kind"] == "step" for hook in hooks(lab))


def test_a_strategy_of_its_own_fails_at_the_call(lab: WorkerLab) -> None:
    """celery-batches: a worker that ran such a task would give it one call for a list of them.

    Seen to fail without the check.
    """
    tq = lab.app.tq

    @tq.task(shared=False, name="batched", Strategy="tests.celery.nowhere:strategy")
    def batched(requests: list[Any]) -> None: ...

    with pytest.raises(UnsupportedTaskError, match="batched has a Strategy of its own"):
        batched.delay(1)


@pytest.mark.slow
def test_celerys_commands_call_and_read_a_scheduled_task(lab: WorkerLab) -> None:
    """Seen to fail with TQ_FRACTION=0, by which the call went to the broker."""
    environ = {**os.environ, **lab.environ, "PYTHONPATH": str(ROOT)}

    def celery(*words: str) -> str:
        command = [sys.executable, "-m", "celery", "-A", "tests.celery.worker_main", *words]
        done = subprocess.run(
            command, env=environ, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60
        )
        return done.stdout.strip()

    before = lab.client.xlen(lab.keys.name("results"))
    task_id = celery("call", "add", "--args", "[40, 2]", "--countdown", "0.2", "--expires", "20")
    assert celery("result", task_id) == "42"
    records = lab.settled(before + 1)
    assert task_id in {record["id"] for record in records}
