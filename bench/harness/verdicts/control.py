"""What centralisation may cost: the scheduler with fifo against tasks that go straight to work."""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness.verdicts.cells import Repetition
from bench.harness.verdicts.readings import cost_us, ratio, throughput
from bench.harness.verdicts.verdict import Measured, Rule

__all__ = ["rules"]


def rules(workloads: Sequence[str]) -> list[Rule[Repetition]]:
    """Return the rules for what was run."""
    return [rule for workload in workloads for rule in _rules(workload)]


def _rules(workload: str) -> list[Rule[Repetition]]:
    def speed(cells: Repetition) -> Measured | None:
        return ratio(cells.get("tq-fifo", workload), cells.get("tq-none", workload), throughput)

    def cost(cells: Repetition) -> Measured | None:
        pair = cells.all(("tq-fifo", "tq-none"), workload)
        fifo, none = [cost_us(cell) for cell in pair] if pair else (None, None)
        return Measured(fifo / none) if fifo and none else None

    needs = f"tq-fifo and tq-none on {workload}"
    return [
        Rule(f"{workload}: throughput, fifo / none", needs, speed, at_least=0.985),
        Rule(
            f"{workload}: CPU and server time per task, fifo / none", needs, cost, at_most=1.015,
            note="workers, scheduler, and the server by its own account of commands",
        ),
    ]  # fmt: skip
