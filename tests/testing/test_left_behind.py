"""celery/celery #4008 and kin: the in-process worker leaves nothing behind, however often."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from tests.waiting import wait_until
from tq_celery import TQ, StoreUnavailableError, TQError
from tq_celery.testing import start

ROOT = Path(__file__).resolve().parents[2]


def build() -> Any:
    app = Celery("left", broker="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.worker_hijack_root_logger = False
    tq = TQ(app, "redis://127.0.0.1:1/0")

    @tq.task(shared=False, name="double")
    def double(x: int) -> int:
        return 2 * x

    app.finalize()
    return app


def held() -> dict[str, list[str]]:
    """Return what this process has: threads, descriptors and child processes."""
    gc.collect()
    descriptors = []
    for path in Path("/proc/self/fd").iterdir():
        try:
            descriptors.append(f"{path.name} {path.readlink()}")
        except OSError:
            continue  # the one that listed the directory
    task = Path(f"/proc/self/task/{threading.main_thread().native_id}/children")
    return {
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "descriptors": sorted(descriptors),
        "children": sorted(task.read_text().split()),
    }


def three_times(url: str, pool: str, **options: Any) -> None:
    """Start, run and stop three times; what is held afterwards is what was held before."""
    app = build()
    results: list[Any] = []
    before = held()
    for number in range(3):
        concurrency = 2 if pool == "threads" else 1
        with start(app, url, pool=pool, concurrency=concurrency, **options) as running:
            double = app.tasks["double"]
            results.append(double.delay(number))
            assert results[-1].get(timeout=30) == 2 * number
            results.append(app.send_task("double", (1,), countdown=600))
            running.wait_idle()
        wait_until(
            lambda: held() == before, f"nothing is left: {before}, now {held()}", interval=0.1
        )
    assert app.conf.broker_url == "redis://127.0.0.1:1/0"
    results.clear()
    assert held() == before, "results that are collected later connect to nothing"
    print("clean")


@pytest.mark.parametrize(
    "pool, broker",
    [
        ("solo", "memory"),
        pytest.param("threads", "memory", marks=pytest.mark.slow),
        pytest.param("solo", "redis", marks=pytest.mark.slow),
        pytest.param("threads", "redis", marks=pytest.mark.slow),
    ],
)
def test_three_starts_leave_no_thread_socket_or_process(server, pool, broker) -> None:
    """In a process of its own, which holds nothing else.

    Seen to fail while the delivery table's wake-ups stayed open, and while the result backend's
    connections did.
    """
    base = f"redis://127.0.0.1:{server.port}"
    options = {"broker": f"{base}/12", "backend": f"{base}/13"} if broker == "redis" else {}
    code = (
        "from tests.testing.test_left_behind import three_times\n"
        f"three_times('{base}/0', {pool!r}, **{options!r})\n"
    )
    warnings = ("-W", "error", "-W", "ignore:Call to deprecated")
    done = subprocess.run(
        [sys.executable, *warnings, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "C_FORCE_ROOT": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "clean" in done.stdout, done.stdout + done.stderr
    with server.client() as client:
        assert not list(client.scan_iter(match="tq:{test-*"))


def test_a_server_that_is_away_is_an_error_at_the_start() -> None:
    app = build()
    with pytest.raises(StoreUnavailableError), start(app, "redis://127.0.0.1:1/0"):
        pass
    assert app.tq.settings.namespace == "left"


@pytest.mark.slow
def test_a_second_worker_in_one_process_is_refused(server) -> None:
    """Celery's workers share their state; a stop of one would stop both."""
    url = f"redis://127.0.0.1:{server.port}/0"
    with start(build(), url, worker={"loglevel": "critical"}) as running:
        with pytest.raises(TQError, match="a worker runs in this process already"):
            with start(build(), url):
                pass
        assert running.app.tasks["double"].delay(2).get(timeout=30) == 4
