"""Small runs for the tests of results: an ideal server's tasks, as if they had really run."""

from __future__ import annotations

from bench.harness.cell import Cell, Profile
from bench.harness.ideal import ideal, ideal_policy
from bench.harness.record import Run
from tq_celery.workloads.registry import make_workload

PROFILE = Profile("smoke", window=1.0, slots=2, repetitions=2, seed=7)
ENVIRONMENT = {"python": "3.11", "packages": {"celery": "5.7.0"}, "load": 0.0, "commit": "abc"}


def cells(arms=("tq-fifo", "tq-wfq"), workloads=("multi_tenant",), loads=(1.25,), repetitions=2):
    return [
        Cell(arm, workload, load, "sleep", repetition)
        for repetition in range(repetitions)
        for workload in workloads
        for load in loads
        for arm in arms
    ]


def run_of(cell: Cell, profile: Profile = PROFILE, **changes) -> Run:
    """Return a complete run, every task a millisecond later than the ideal server had it."""
    seed = profile.seed + cell.repetition
    works = make_workload(
        cell.workload, seed=seed, window=profile.window, slots=profile.slots, load=cell.load
    )
    best = ideal(works, ideal_policy(cell.arm), profile.slots)
    rows = tuple(
        row._replace(
            submitted=row.submitted + 1 / 3e3, lag=1 / 3e3,
            started=(row.started or 0.0) + 0.001, finished=(row.finished or 0.0) + 0.001,
        )
        for row in best
    )  # fmt: skip
    run = {
        "cell": cell, "seed": seed, "slots": profile.slots, "rows": rows, "ideal": best,
        "ending": "complete", "elapsed": 1.5, "worker_cpu": 0.2, "server_us": 1234.5,
        "versions": {"redis": "redis 7.0.15"},
    }  # fmt: skip
    return Run(**{**run, **changes})
