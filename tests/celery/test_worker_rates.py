"""Rate limits: what has no token waits with the scheduler and is in nobody's way."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.celery.worker_lab import WorkerLab
from tests.waiting import BUSY, wait_until

pytestmark = pytest.mark.slow


def _limit(lab: WorkerLab, rate: str) -> None:
    lab.listening()
    replies = lab.app.control.rate_limit("limited", rate, reply=True, timeout=30, limit=1)
    assert replies
    for reply in replies:
        assert all("ok" in answer for answer in reply.values()), reply


def test_a_limited_type_in_front_holds_up_nobody(worker_lab):
    """celery/celery #7633, #8119: fifty tasks of one a minute filled the window of the others.

    A limit that is lifted at run time counts from then on.
    """
    lab = worker_lab(policy="fifo")
    lab.worker("threads", concurrency=2)
    _limit(lab, "1/m")
    for _ in range(50):
        lab.send("limited")
    others = [lab.send("nap", 0.05).id for _ in range(20)]
    started = time.monotonic()
    wait_until(lambda: len(lab.runs("end")) == 20, "the others run at once")
    assert time.monotonic() - started < 4.0 + BUSY
    limited = [run for run in lab.runs() if run["id"] not in others]
    assert len(limited) == 1
    wait_until(lambda: lab.counters().get("delayed:celery", 0) >= 40, "they wait outside")
    assert [each["slots"] for each in lab.announced().values()] == [2]
    _limit(lab, "100/s")
    lab.send("limited")
    wait_until(lambda: len(lab.runs()) >= 22, "the new limit counts")
    assert {record["attempts"] for record in lab.settled(22)} == {"0"}


@pytest.mark.parametrize("workers", [1, 2])
def test_each_worker_keeps_the_limit(worker_lab, workers):
    """As in Celery the limit is each worker's own; none exceeds it, and none wastes much of it."""
    lab = worker_lab(policy="fifo")
    for _ in range(workers):
        lab.worker("threads", concurrency=2)
    count = 25 * workers
    for _ in range(count):
        lab.send("limited")  # 5/s
    lab.settled(count, 40)
    by_worker: dict[int, list[float]] = {}
    for run in lab.runs():
        by_worker.setdefault(run["pid"], []).append(run["at"])
    assert len(by_worker) == workers
    at: list[Any] = sorted(run["at"] for run in lab.runs())
    took = at[-1] - at[0]

    for moments in by_worker.values():
        assert len(moments) <= 5 * (moments[-1] - moments[0]) + 3
    assert took < 2 * count / workers / 5 + BUSY
