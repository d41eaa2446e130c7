"""A prefork job whose process is gone: handed on to another only if it had not started.

Celery's pool gives a job that was written to a dead process to the next one unless the process had
said that it accepted it. A process that dies while the pool takes in the death of another has said
so, and nobody has read it yet: the pool closes the pipe and a second body starts, at once and
without a delivery that was counted as lost. Seen once in some hundred deaths. So the pipe is read
before that decision.
"""

from __future__ import annotations

from typing import Any

from celery.concurrency.asynpool import AsynPool

__all__ = ["read_before_handing_on"]


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
