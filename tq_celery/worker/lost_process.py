"""A prefork job whose process is gone: handed on to another only if it had not started.

Celery's pool gives a job that was written to a dead process to the next one unless the process had
said that it accepted it. A process that dies while the pool takes in the death of another has said
so, and nobody has read it yet: the pool closes the pipe and a second body starts, at once and
without a delivery that was counted as lost. Seen once in some hundred deaths. So the pipe is read
before that decision.

A process that dies closes its pipes before it can be waited for. The pool, woken by that, may find
it alive still, and then looks only when its timer says so: up to five seconds in which the slot is
gone and the task waits. So it looks again at once, and a few times more.
"""

from __future__ import annotations

from typing import Any

from celery.concurrency.asynpool import AsynPool
from kombu.asynchronous import get_event_loop

__all__ = ["look_until_it_is_gone", "read_before_handing_on"]

#: First and longest pause, in seconds, before the pool looks again at a process that is ending.
FIRST_LOOK, LAST_LOOK = 0.01, 1.0


def read_before_handing_on(pool: Any) -> None:
    """Change how ``pool``, the AsynPool of a prefork worker, treats jobs marked ``scheduled``."""
    if not isinstance(pool, AsynPool):
        return  # without an event loop the pool is another, which hands nothing on
    theirs: Any = pool.on_job_process_down

    def on_job_process_down(job: Any, pid_gone: Any) -> None:
        process = job._write_to
        if (
            getattr(job, "scheduled", False)
            and not job._accepted
            and process is not None
            and not process._is_alive()
            and not process.outq._reader.closed
        ):
            pool.process_flush_queues(process)
            if job._accepted:
                return  # it ran there: the pool's next look takes it for lost, or has its result
        theirs(job, pid_gone)

    pool.on_job_process_down = on_job_process_down


def look_until_it_is_gone(pool: Any) -> None:
    """Let ``pool``, the AsynPool of a prefork worker, look again at a process that is ending.

    With pauses that double, so that a task which has closed its process's pipes costs a few looks.
    """
    if not isinstance(pool, AsynPool):
        return
    theirs: Any = pool.maintain_pool

    def maintain_pool(pause: float = FIRST_LOOK) -> None:
        theirs()
        ending = any(getattr(each, "_sentinel_poll", each) is None for each in pool._pool)
        if ending and pause <= LAST_LOOK and (hub := get_event_loop()) is not None:
            hub.call_later(pause, maintain_pool, 2 * pause)

    pool.maintain_pool = maintain_pool
