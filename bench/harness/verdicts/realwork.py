"""What is left of the policies' effects when tasks use a processor instead of sleeping."""

from __future__ import annotations

from functools import partial

from bench.harness.verdicts.cells import Repetition
from bench.harness.verdicts.readings import miss_rate, quiet_p95, ratio
from bench.harness.verdicts.verdict import Measured, Rule

__all__ = ["RULES"]


def _isolation(cells: Repetition, exec_: str) -> Measured | None:
    """Return how many times wfq's p95 of the small tenants fifo's is."""
    fifo, wfq = (cells.get(arm, "multi_tenant", exec_=exec_) for arm in ("tq-fifo", "tq-wfq"))
    return ratio(fifo, wfq, quiet_p95)


def _advantage(cells: Repetition, exec_: str) -> Measured | None:
    """Return the share of deadlines that edf meets and fifo misses."""
    pair = cells.all(("tq-fifo", "tq-edf"), "heavy_tailed", exec_=exec_)
    if pair is None:
        return None
    real, ideal = ([miss_rate(cell, which) for cell in pair] for which in (False, True))
    value = _difference(real)
    return None if value is None else Measured(value, _difference(ideal))


def _difference(rates: list[float | None]) -> float | None:
    fifo, edf = rates
    return None if fifo is None or edf is None else fifo - edf


def _shrinks(cells: Repetition) -> Measured | None:
    asleep, cpu = _advantage(cells, "sleep"), _advantage(cells, "cpu")
    return Measured(asleep.value - cpu.value) if asleep and cpu else None


RULES: tuple[Rule[Repetition], ...] = (
    *(
        Rule(
            f"multi_tenant, {exec_}: small tenants' p95 under fifo / under wfq",
            f"tq-fifo and tq-wfq on multi_tenant, {exec_}", partial(_isolation, exec_=exec_),
            at_least=5.0,
            note="isolation holds where small tenants wait a fraction of what they do under fifo",
        )
        for exec_ in ("sleep", "cpu")
    ),
    *(
        Rule(
            f"heavy_tailed, {exec_}: share of deadlines missed under fifo - under edf",
            f"tq-fifo and tq-edf on heavy_tailed, {exec_}", partial(_advantage, exec_=exec_),
        )
        for exec_ in ("sleep", "cpu")
    ),
    Rule(
        "heavy_tailed: edf's advantage asleep - on a processor",
        "tq-fifo and tq-edf on heavy_tailed, sleep and cpu", _shrinks, at_least=0.0,
        note="above 0 it shrinks, as expected",
    ),
)  # fmt: skip
