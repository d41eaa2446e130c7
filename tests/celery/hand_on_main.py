"""Two pool processes die within one look of the pool; prints how many bodies have started.

``python -m tests.celery.hand_on_main FILE [plain]``
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from celery.concurrency.asynpool import AsynPool
from kombu.asynchronous import Hub, set_event_loop

from tq_celery.worker.lost_process import read_before_handing_on


def body(path: str) -> None:
    """Note the start with one write, and stay."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, b"start\n")
    os.close(descriptor)
    time.sleep(0.5)


def starts(path: str) -> int:
    return len(Path(path).read_bytes().splitlines()) if Path(path).exists() else 0


def wait(condition: Any, loop: Any = None) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        if loop is not None:
            next(loop)
        else:
            time.sleep(0.01)


def main(path: str, guarded: bool) -> int:
    hub = Hub()
    set_event_loop(hub)
    pool: Any = AsynPool(processes=2, threads=False, lost_worker_timeout=0.2)
    pool.register_with_event_loop(hub)
    hub.call_repeatedly(0.05, lambda: None)
    loop = hub.create_loop()
    wait(lambda: len(pool._all_inqueues) == 2, loop)
    if guarded:
        read_before_handing_on(pool)
    jobs = [pool.apply_async(body, (path,)) for _ in range(2)]
    for job in jobs:
        job.scheduled = True
    wait(lambda: all(job._write_to for job in jobs) and not pool._active_writers, loop)
    # both say that they accept their job, and nobody reads it
    wait(lambda: starts(path) == 2)
    first, second = pool._pool
    flush = pool.process_flush_queues

    def flush_and_kill(process: Any) -> None:
        flush(process)
        if process is first and second._is_alive():
            os.kill(second.pid, signal.SIGKILL)
            wait(lambda: not second._is_alive())

    pool.process_flush_queues = flush_and_kill
    os.kill(first.pid, signal.SIGKILL)
    wait(lambda: not first._is_alive())
    pool.maintain_pool()
    wait(lambda: all(job.ready() for job in jobs), loop)
    pool.terminate()
    return starts(path)


if __name__ == "__main__":
    print(main(sys.argv[1], "plain" not in sys.argv[2:]))
    sys.stdout.flush()
    os._exit(0)
