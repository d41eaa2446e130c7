"""One arm under contention: the ``llm`` workload on few slots, stopped once the window is over."""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness.cell import Cell, Profile
from bench.harness.course import stopped
from bench.harness.drive import run_cell
from bench.harness.errors import BenchError
from bench.harness.lab import Lab
from bench.harness.record import Run
from tq_celery.errors import SettingsError
from tq_celery.workloads.registry import make_workload, weights
from tq_celery.workloads.work import Work

__all__ = ["SLOTS", "WORKERS", "contend", "plan", "shares"]

WORKLOAD = "llm"
#: Slots of all workers together, the limit, and the worker processes that share them evenly.
SLOTS, WORKERS = 4, 2
#: Seconds for which the run goes on behind the window, so that what started in it may end.
AFTER = 0.3


def plan(seed: int, seconds: float, load: float | None = None) -> list[Work]:
    """Return the tasks of ``seconds``; ``load`` is what they ask of the slots, if not their own.

    Raises BenchError for a seed or a load that there is no workload for.
    """
    try:
        return make_workload(WORKLOAD, seed=seed, window=seconds, slots=SLOTS, load=load)
    except SettingsError as error:
        raise BenchError(str(error)) from error


def shares(works: Sequence[Work]) -> dict[str, float]:
    """Return the weight of every tenant of a plan."""
    given = weights(WORKLOAD)
    return {tenant: given.get(tenant, 1.0) for tenant in sorted({work.tenant for work in works})}


def contend(
    lab: Lab, arm: str, seed: int, repetition: int, end: float, load: float | None = None
) -> Run:
    """Run ``arm`` until ``end`` seconds after the first arrival are over.

    Raises BenchError when it fails by itself, or when the plan was not offered in time.
    """
    profile = Profile("fairgate", window=end, slots=SLOTS, workers=WORKERS, seed=seed)
    works = plan(seed + repetition, end + AFTER, load)
    asked = sum(work.seconds for work in works) / (SLOTS * (end + AFTER))
    run = run_cell(
        Cell(arm, WORKLOAD, round(asked, 2), "sleep", repetition), profile, lab,
        plan=works, weights=shares(works), stop_after=end + AFTER,
    )  # fmt: skip
    # A producer that ends too early truncates a run, too, and its backlog would hide that.
    if run.ending != "complete" and run.reason != stopped(end + AFTER):
        raise BenchError(f"{arm} {run.ending}: {run.reason}")
    late = max(row.lag for row in run.rows)
    if late > AFTER:
        raise BenchError(f"the producer of {arm} was {late:.2f} s late: use the machine alone")
    return run
