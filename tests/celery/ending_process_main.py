"""A pool process is not gone yet when its pipes are; says that its job is found lost all the same.

``python -m tests.celery.ending_process_main [plain]``
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

from celery.concurrency.asynpool import AsynPool
from kombu.asynchronous import Hub, set_event_loop

from tests.celery.hand_on_main import wait
from tq_celery.worker.lost_process import look_until_it_is_gone


class Untimed(AsynPool):
    """Celery's pool without its timer, which would look after five seconds."""

    @property
    def timers(self) -> dict[Any, float]:
        return {}


def main(guarded: bool) -> None:
    hub = Hub()
    set_event_loop(hub)
    pool: Any = Untimed(processes=1, threads=False, lost_worker_timeout=0.2)
    pool.register_with_event_loop(hub)
    hub.call_repeatedly(0.05, lambda: None)
    loop = hub.create_loop()
    wait(lambda: len(pool._all_inqueues) == 1, loop)
    if guarded:
        look_until_it_is_gone(pool)
    job = pool.apply_async(time.sleep, (60,))
    wait(lambda: job._accepted, loop)
    (process,) = pool._pool
    poll, looks = process._popen.poll, iter(range(2))
    # the first looks come before the process can be waited for
    process._popen.poll = lambda *flags: None if next(looks, None) is not None else poll(*flags)
    os.kill(process.pid, signal.SIGKILL)
    wait(job.ready, loop)
    pool.terminate()


if __name__ == "__main__":
    main("plain" not in sys.argv[1:])
    print("lost")
    sys.stdout.flush()
    os._exit(0)
