"""Where the policy matters: the offered load from half of what the slots can do to three times."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from bench.harness.verdicts.cells import Repetition
from bench.harness.verdicts.readings import Reading, max_over_min, miss_rate, p99, wait_max
from bench.harness.verdicts.verdict import Measured, Rule

__all__ = ["rules"]

FOUR = ("tq-fifo", "tq-priority", "tq-edf", "tq-wfq")
#: The load at which no policy has anything to decide.
LIGHT = 0.5


def rules(workloads: Sequence[str], loads: Sequence[float]) -> list[Rule[Repetition]]:
    """Return the rules for what was run."""
    found: list[Rule[Repetition]] = []
    for workload in workloads:
        found += [
            Rule(
                f"{workload}: spread of p99 over the policies at {LIGHT:g} x, as a share",
                f"all four policies on {workload} at load {LIGHT:g}",
                partial(_spread, workload=workload, load=LIGHT), at_most=0.02,
            ),
            Rule(
                f"{workload}: load at which that spread is greatest",
                f"all four policies on {workload} at three loads",
                partial(_peak, workload=workload), at_least=0.85, at_most=1.25,
            ),
        ]  # fmt: skip
        for load in loads:
            found += [
                Rule(
                    f"{workload}: {what} at {load:g} x", f"tq-edf on {workload}",
                    partial(_edf, workload=workload, load=load, reading=reading),
                )
                for what, reading in (
                    ("edf's missed deadlines", miss_rate), ("edf's longest wait in s", wait_max)
                )
            ]  # fmt: skip
    return found


def _spread(cells: Repetition, workload: str, load: float) -> Measured | None:
    """Return by what share the worst policy's p99 is above the best one's."""
    found = cells.all(FOUR, workload, load)
    if found is None:
        return None
    real, ideal = (max_over_min([p99(cell, which) for cell in found]) for which in (False, True))
    return None if real is None else Measured(real - 1, None if ideal is None else ideal - 1)


def _peak(cells: Repetition, workload: str) -> Measured | None:
    spreads = {load: _spread(cells, workload, load) for load in cells.loads}
    known = {load: spread for load, spread in spreads.items() if spread is not None}
    if len(known) < 3:
        return None
    ideal = max(known, key=lambda load: known[load].ideal or 0.0)
    return Measured(max(known, key=lambda load: known[load].value), ideal)


def _edf(cells: Repetition, workload: str, load: float, reading: Reading) -> Measured | None:
    cell = cells.get("tq-edf", workload, load)
    real = reading(cell, False) if cell else None
    return Measured(real, reading(cell, True)) if cell and real is not None else None
