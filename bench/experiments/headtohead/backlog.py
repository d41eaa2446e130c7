"""A backlog of equal tasks, and how long a warm fleet takes for it: throughput without arrivals."""

from __future__ import annotations

import contextlib
import math
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.harness.cell import Cell, Profile
from bench.harness.course import Course, Watch
from bench.harness.errors import BenchError
from bench.harness.events import Account, Tail
from bench.harness.fleet import Files, Fleet
from bench.harness.ideal import ideal, ideal_policy
from bench.harness.lab import Lab
from bench.harness.record import Run
from bench.harness.sender import write_plan
from tq_celery.workloads.registry import make_workload
from tq_celery.workloads.work import Work

__all__ = ["backlog_of", "run_backlog"]

#: Seconds that sending a backlog may take: a worker that is frozen for longer loses its lease.
SENDING = 25.0
#: Seconds that a backlog may take beyond what the slots need for it.
LIMIT = 60.0


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
    Raises BenchError when a process does not start or the backlog cannot be sent.
    """
    started = time.monotonic()
    seed = profile.seed + cell.repetition
    best = ideal(works, ideal_policy(cell.arm), profile.slots)
    arm = lab.arm(cell.arm, f"bench-{cell.name}", tenants=sorted({work.tenant for work in works}))
    arm.reset()
    with contextlib.ExitStack() as stack:
        # Behind the processes, so that they are gone before the namespace is.
        stack.callback(arm.delete)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-backlog-"))
        files = Files(Path(folder), profile.workers)
        write_plan(files.plan, works)
        tail = Tail(files.create())
        stack.callback(tail.close)
        watch("start", 0, len(works))
        fleet = stack.enter_context(Fleet(arm, cell, profile, seed, files, lab.python))
        account = Account(works)
        fleet.warm_up(account, tail)
        limit = max(row.finished or 0.0 for row in best) + LIMIT
        course = _Preloaded(arm, fleet, account, tail, watch, limit)
        course.run()
    return Run(
        cell=cell,
        seed=seed,
        slots=profile.slots,
        rows=account.rows(course.dead),
        ideal=best,
        ending=course.ending,
        reason=course.reason,
        elapsed=time.monotonic() - started,
        worker_cpu=course.used.worker,
        scheduler_cpu=course.used.scheduler,
        server_cpu=course.used.server,
        producer_cpu=course.used.producer,
        server_us=course.used.server_us,
        dead_letters=tuple(course.dead_letters),
        versions=lab.versions,
    )
