"""A backlog of equal tasks, and how long a warm fleet takes for it: throughput without arrivals."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Sequence

from bench.harness.cell import Cell, Profile
from bench.harness.course import Course, Watch
from bench.harness.drive import run_cell
from bench.harness.errors import BenchError
from bench.harness.lab import Lab
from bench.harness.record import Run
from tq_celery.workloads.registry import make_workload
from tq_celery.workloads.work import Work

__all__ = ["backlog_of", "run_backlog"]

#: Seconds that sending a backlog may take: a worker that is frozen for longer loses its lease.
SENDING = 25.0


class _Preloaded(Course):
    """Sends the whole plan while the workers are frozen; second 0 is when they go on.

    All slots then begin at one instant, in every arm, with everything sent. What brokers hand over
    early, to sockets of frozen workers, is no more than the prefetch setting allows.
    """

    def _begin(self) -> None:
        workers = self._fleet.workers
        for worker in workers:
            worker.signal(signal.SIGSTOP)
        try:
            end = time.monotonic() + SENDING
            self._fleet.producer.tell("go 0")
            while not self._account.all_sent:
                self._fleet.check()
                if time.monotonic() > end:
                    raise BenchError(
                        f"{self._arm.name}: not sent within {SENDING:g} s: fewer tasks"
                    )
                time.sleep(0.02)
                self._read()
            self._account.submitted = dict.fromkeys(self._account.submitted, 0.0)
            self._account.start = time.monotonic()
        finally:
            for worker in workers:
                worker.signal(signal.SIGCONT)


def backlog_of(seconds: float, slots: int, span: float, most: int, seed: int) -> list[Work]:
    """Return equal tasks that keep all ``slots`` busy for ``span`` seconds, if nothing is lost.

    Never more than ``most``, which is what tasks that take no time get.
    """
    count = min(most, round(slots * span / seconds)) if seconds else most
    return make_workload("fixed", seed=seed, count=count, rate=math.inf, seconds=seconds)


def run_backlog(cell: Cell, profile: Profile, lab: Lab, watch: Watch, works: Sequence[Work]) -> Run:
    """Run a backlog of ``works`` and return what happened; times count from the start.

    Every submission is at second 0, so throughput over the makespan is that of the fleet alone.
    Ends and raises as :func:`bench.harness.drive.run_cell`, and BenchError when a backlog is not
    sent in time.
    """
    return run_cell(cell, profile, lab, watch, plan=works, course=_Preloaded)
