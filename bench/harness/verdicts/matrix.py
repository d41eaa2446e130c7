"""What the matrix of four policies and four workloads has to show, against the ideal server."""

from __future__ import annotations

from collections.abc import Callable

from bench.harness.verdicts.cells import Repetition
from bench.harness.verdicts.readings import (
    dominant_p95,
    max_over_min,
    miss_rate,
    over_ideal,
    priority_spread,
    quiet_p95,
    ratio,
    throughput,
    wait_max,
)
from bench.harness.verdicts.verdict import Measured, Rule

__all__ = ["RULES"]

FOUR = ("tq-fifo", "tq-priority", "tq-edf", "tq-wfq")
WORKLOADS = ("uniform", "bursty", "heavy_tailed", "multi_tenant")
Measure = Callable[[Repetition], Measured | None]


def _level_spread(arm: str, workload: str) -> Measure:
    def measure(cells: Repetition) -> Measured | None:
        cell = cells.get(arm, workload)
        real = priority_spread(cell, False) if cell else None
        return Measured(real, priority_spread(cell, True)) if cell and real else None

    return measure


def _beside_ideal(arm: str, workload: str) -> Measure:
    return lambda cells: over_ideal(cells.get(arm, workload), priority_spread)


def _by_level(arm: str, workload: str) -> list[Rule[Repetition]]:
    """Return the rules on how much p95 differs between priority levels."""
    policy, needs = arm.removeprefix("tq-"), f"{arm} on {workload}"
    other = "" if arm == "tq-priority" else "this policy does not look at the priority"
    return [
        Rule(
            f"{policy}, {workload}: slowest priority level's p95 / fastest level's", needs,
            _level_spread(arm, workload), note=other,
        ),
        Rule(
            f"{policy}, {workload}: that spread / the ideal server's", needs,
            _beside_ideal(arm, workload), at_least=0.85, at_most=1.15, note=other,
        ),
    ]  # fmt: skip


def _edf_longest(cells: Repetition) -> Measured | None:
    """Return EDF's longest wait over the longest of the other policies."""
    found = cells.all(FOUR, "heavy_tailed")
    if found is None:
        return None
    real, ideal = (
        {cell.cell.arm: wait_max(cell, which) or 0.0 for cell in found} for which in (False, True)
    )
    quotients = []
    for waits in (real, ideal):
        edf = waits.pop("tq-edf")
        quotients.append(edf / max(waits.values()) if max(waits.values()) else None)
    return None if quotients[0] is None else Measured(quotients[0], quotients[1])


def _dominant(cells: Repetition) -> Measured | None:
    """Return by how much fair sharing raises the dominant tenant's p95 above what fifo has."""
    wfq, fifo = cells.get("tq-wfq", "multi_tenant"), cells.get("tq-fifo", "multi_tenant")
    found = ratio(wfq, fifo, dominant_p95)
    if found is None or found.ideal is None:
        return None
    return Measured(found.value - 1, found.ideal - 1)


def _dominant_above_ideal(cells: Repetition) -> Measured | None:
    found = _dominant(cells)
    return None if found is None or found.ideal is None else Measured(found.value - found.ideal)


def _jain_range(cells: Repetition) -> Measured | None:
    found = cells.all(FOUR, "multi_tenant")
    if found is None:
        return None
    real = [cell.real.jain_service or 0.0 for cell in found]
    ideal = [cell.ideal.jain_service or 0.0 for cell in found]
    return Measured(max(real) - min(real), max(ideal) - min(ideal))


def _throughputs(workload: str) -> Measure:
    def measure(cells: Repetition) -> Measured | None:
        found = cells.all(FOUR, workload)
        if found is None:
            return None
        real, ideal = (max_over_min([throughput(c, i) for c in found]) for i in (False, True))
        return None if real is None else Measured(real, ideal)

    return measure


RULES: tuple[Rule[Repetition], ...] = (
    *(
        rule
        for arm in ("tq-priority", "tq-fifo", "tq-edf", "tq-wfq")
        for workload in WORKLOADS
        for rule in _by_level(arm, workload)
    ),
    Rule(
        "edf, heavy_tailed: missed deadlines / the ideal server's", "tq-edf on heavy_tailed",
        lambda cells: over_ideal(cells.get("tq-edf", "heavy_tailed"), miss_rate), at_most=1.1,
    ),
    Rule(
        "edf, heavy_tailed: missed deadlines / fifo's", "tq-edf and tq-fifo on heavy_tailed",
        lambda cells: ratio(
            cells.get("tq-edf", "heavy_tailed"), cells.get("tq-fifo", "heavy_tailed"), miss_rate
        ), at_most=0.9,
        note="depends on the length of the run: in lasting overload every policy misses",
    ),
    Rule(
        "edf, heavy_tailed: longest wait / longest of the other policies",
        "all four policies on heavy_tailed", _edf_longest, at_least=1.0,
    ),
    Rule(
        "wfq, multi_tenant: small tenants' p95 / the ideal server's", "tq-wfq on multi_tenant",
        lambda cells: over_ideal(cells.get("tq-wfq", "multi_tenant"), quiet_p95), at_most=1.25,
    ),
    Rule(
        "multi_tenant: small tenants' p95 under fifo / under wfq",
        "tq-fifo and tq-wfq on multi_tenant",
        lambda cells: ratio(
            cells.get("tq-fifo", "multi_tenant"), cells.get("tq-wfq", "multi_tenant"), quiet_p95
        ),
        note="published without a bound: it grows with the length of the run",
    ),
    Rule(
        "multi_tenant: what wfq adds to the dominant tenant's p95 under fifo, as a share",
        "tq-fifo and tq-wfq on multi_tenant", _dominant,
    ),
    Rule(
        "multi_tenant: that share minus the ideal server's",
        "tq-fifo and tq-wfq on multi_tenant", _dominant_above_ideal, at_most=0.01,
    ),
    Rule(
        "multi_tenant: Jain over service, greatest - least of the policies",
        "all four policies on multi_tenant", _jain_range, at_most=0.01,
        note="alike, because every tenant is served all it asks for in the end, whatever the order",
    ),
    *(
        Rule(
            f"{workload}: throughput, fastest / slowest policy",
            f"all four policies on {workload}", _throughputs(workload), at_most=1.01,
        )
        for workload in ("uniform", "bursty", "multi_tenant")
    ),
)  # fmt: skip
