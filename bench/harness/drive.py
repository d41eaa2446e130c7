"""Runs one cell: the plan, the processes, the clock, and what became of every task."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.harness.cell import Cell, Profile, duration
from bench.harness.course import Course, Watch
from bench.harness.errors import BenchError
from bench.harness.events import Account, Tail
from bench.harness.fleet import Files, Fleet
from bench.harness.ideal import ideal, ideal_policy
from bench.harness.lab import Lab
from bench.harness.record import Run
from bench.harness.sender import write_plan
from tq_celery.errors import SettingsError
from tq_celery.workloads import registry
from tq_celery.workloads.work import Work

__all__ = ["Watch", "expected_seconds", "plan_of", "quiet", "run_cell"]

#: About how many seconds it takes to send a backlog and to work it off.
BACKLOG = 7.0


def quiet(phase: str, done: int, total: int) -> None:
    """Show nothing."""


def window_of(cell: Cell, profile: Profile) -> float:
    """Return the length of the cell's arrivals in seconds."""
    long = profile.long_window if cell.workload == "heavy_tailed" else None
    return profile.window if long is None else long


def plan_of(cell: Cell, profile: Profile) -> list[Work]:
    """Return the tasks of the cell; ``llm`` has a rate of its own, whatever the cell's load.

    Raises BenchError for an unknown workload.
    """
    try:
        return registry.make_workload(
            cell.workload,
            seed=profile.seed + cell.repetition,
            window=window_of(cell, profile),
            slots=profile.slots,
            load=None if cell.workload == "llm" else cell.load,
            longest=profile.longest,
            deadline=registry.DeadlineRule(*profile.deadline),
        )
    except SettingsError as error:
        raise BenchError(str(error)) from error


def expected_seconds(cell: Cell, profile: Profile) -> float:
    """Return about how long a cell takes, for the time left: its work, its start and its end."""
    if duration(cell.workload) is not None:
        return BACKLOG + 5.0
    return window_of(cell, profile) * max(1.0, cell.load) + 5.0


def run_cell(
    cell: Cell,
    profile: Profile,
    lab: Lab,
    watch: Watch = quiet,
    *,
    plan: Sequence[Work] | None = None,
    weights: Mapping[str, float] | None = None,
    stop_after: float | None = None,
    course: type[Course] = Course,
) -> Run:
    """Run a cell and return what happened, rows of the ideal server included.

    ``plan`` replaces the workload's tasks, ``weights`` those that its tenants are meant to
    have. With ``stop_after`` producer and workers are stopped that many seconds after the first
    planned arrival: bodies that run may end, all else is missing, the ending is ``truncated``.
    ``course`` is a kind of its own where the plan is not sent at its arrivals.

    Ends when every task is completed or dead; ``timed-out`` when that takes the profile's ``grace``
    longer than the ideal server, ``truncated`` when the producer ended before its plan did,
    ``failed`` when another process did or the books do not balance. Raises BenchError when the
    processes do not start. Processes are ended and the namespace deleted in every case.
    """
    started = time.monotonic()
    seed = profile.seed + cell.repetition
    works = plan_of(cell, profile) if plan is None else list(plan)
    if weights is None:
        weights = registry.weights(cell.workload)
    best = ideal(works, ideal_policy(cell.arm), profile.slots, weights=weights)
    tenants = sorted({work.tenant for work in works})
    arm = lab.arm(cell.arm, f"bench-{cell.name}", tenants=tenants, weights=weights)
    arm.reset()
    with contextlib.ExitStack() as stack:
        # Behind the processes, so that they are gone before the namespace is.
        stack.callback(arm.delete)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-cell-"))
        files = Files(Path(folder), profile.workers)
        write_plan(files.plan, works)
        files.attempts.write_bytes(bytes(len(works) + 1))
        tail = Tail(files.create())
        stack.callback(tail.close)
        watch("start", 0, len(works))
        fleet = stack.enter_context(Fleet(arm, cell, profile, seed, files, lab.python))
        account = Account(works)
        fleet.warm_up(account, tail)
        last = max(row.finished or 0.0 for row in best)
        followed = course(arm, fleet, account, tail, watch, last + profile.grace)
        followed.run(stop_after)
    return Run(
        cell=cell,
        seed=seed,
        slots=profile.slots,
        rows=account.rows(followed.dead),
        ideal=best,
        ending=followed.ending,
        reason=followed.reason,
        elapsed=time.monotonic() - started,
        worker_cpu=followed.used.worker,
        scheduler_cpu=followed.used.scheduler,
        server_cpu=followed.used.server,
        producer_cpu=followed.used.producer,
        server_us=followed.used.server_us,
        others=followed.used.others,
        dead_letters=tuple(followed.dead_letters),
        versions=lab.versions,
    )
