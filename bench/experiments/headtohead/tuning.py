"""The best prefetch multiplier of every stock arm, found before anything is compared.

Three kinds of cells want three settings: backlogs of short tasks, backlogs of long ones, and
arrivals, where whatever a worker holds in advance is out of the broker's order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Literal

from bench.experiments.headtohead.backlog import backlog_of, run_backlog
from bench.experiments.headtohead.plan import STOCK, Plan
from bench.harness.cell import Cell, Profile, backlog_name, duration
from bench.harness.drive import quiet, run_cell
from bench.harness.errors import BenchError
from bench.harness.lab import Lab
from bench.harness.prefetch import best_prefetch
from bench.harness.report import progress
from bench.harness.results import Results
from bench.harness.summary import CellSummary, summarise

__all__ = ["Kind", "kind_of", "tune"]

Kind = Literal["short", "long", "arrivals"]

#: Tasks of this many milliseconds or more are long ones.
LONG = 5.0
#: Milliseconds of the backlog that stands for short and for long tasks.
_STANDS_FOR: Mapping[Kind, int] = {"short": 0, "long": 10}
#: Share of a full backlog that is run for one multiplier.
_SHARE = 0.4
#: Seconds of arrivals that are run for one multiplier.
_WINDOW = 5.0


def kind_of(workload: str) -> Kind:
    """Return which of the three settings a workload's cells have."""
    ms = duration(workload)
    if ms is None:
        return "arrivals"
    return "long" if ms >= LONG else "short"


def tune(
    plan: Plan, arms: Sequence[str], profile: Profile, lab: Lab, results: Results
) -> dict[Kind, dict[str, int]]:
    """Return the multiplier by kind and arm; what is found is kept as the note ``prefetch``.

    A resumed run finds it there. Raises BenchError when an arm cannot be run.
    """
    notes: dict[str, Any] = {
        kind: dict(of) for kind, of in results.notes.get("prefetch", {}).items()
    }
    kinds: dict[Kind, tuple[int, ...]] = {}
    if plan.durations:
        kinds |= {"short": plan.multipliers, "long": plan.multipliers}
    if plan.workloads:
        kinds["arrivals"] = plan.ordered
    for kind, multipliers in kinds.items():
        for arm in (arm for arm in arms if arm in STOCK):
            known = notes.setdefault(kind, {})
            if arm in known:
                continue
            if len(multipliers) == 1:
                known[arm] = {"best": multipliers[0], "figures": {}}
            else:
                found = best_prefetch(multipliers, partial(_figure, kind, arm, plan, profile, lab))
                known[arm] = asdict(found)
                said = ", ".join(f"{each}: {value:.4g}" for each, value in found.figures.items())
                progress(f"prefetch of {arm}, {kind}: {found.best} ({said})")
            results.note("prefetch", notes)
    return {
        kind: {arm: int(found["best"]) for arm, found in notes.get(kind, {}).items()}
        for kind in kinds
    }


def _figure(kind: Kind, arm: str, plan: Plan, profile: Profile, lab: Lab, multiplier: int) -> float:
    """Return tasks per second of a backlog, or one over the quiet tenants' p95 with arrivals."""
    before, lab.prefetch = lab.prefetch, {arm: multiplier}
    try:
        summary = _try(kind, arm, plan, profile, lab)
    finally:
        lab.prefetch = before
    figure = summary.real.throughput
    if kind == "arrivals":
        p95 = None if summary.quiet is None else summary.quiet.real.latency_p95
        figure = 1 / p95 if p95 else None
    if not summary.counts or figure is None:
        raise BenchError(f"{arm} with prefetch {multiplier}: {summary.ending}, {summary.reason}")
    return figure


def _try(kind: Kind, arm: str, plan: Plan, profile: Profile, lab: Lab) -> CellSummary:
    if kind == "arrivals":
        short = replace(profile, window=_WINDOW)
        cell = Cell(arm, "multi_tenant", profile.load, profile.exec, 0)
        return summarise(run_cell(cell, short, lab, quiet))
    ms = _STANDS_FOR[kind]
    works = backlog_of(
        ms / 1000, profile.slots, plan.span * _SHARE, round(plan.most * _SHARE), profile.seed
    )
    cell = Cell(arm, backlog_name(ms), 0.0, profile.exec, 0)
    return summarise(run_backlog(cell, profile, lab, quiet, works))
