"""The rules of an experiment, applied to its cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from bench.harness.summary import CellSummary
from bench.harness.verdicts import control, headtohead, matrix, realwork, sweep
from bench.harness.verdicts.cells import Repetition, repetitions
from bench.harness.verdicts.soundness import abandoned, soundness
from bench.harness.verdicts.verdict import Rule, Verdict, apply

__all__ = ["judge"]

Rules = Sequence[Rule[Repetition]]


def _control(summaries: Sequence[CellSummary]) -> Rules:
    return control.rules(_workloads(summaries))


def _sweep(summaries: Sequence[CellSummary]) -> Rules:
    loads = sorted({each.cell.load for each in summaries})
    return sweep.rules(_workloads(summaries), loads)


def _headtohead(summaries: Sequence[CellSummary]) -> Rules:
    arms = dict.fromkeys(each.cell.arm for each in summaries)
    stock = [arm for arm in arms if not arm.startswith("tq-")]
    return headtohead.rules(stock, _workloads(summaries))


#: Experiment -> the rules for the cells that were run.
EXPERIMENTS: dict[str, Callable[[Sequence[CellSummary]], Rules]] = {
    "matrix": lambda _: matrix.RULES,
    "control": _control,
    "sweep": _sweep,
    "realwork": lambda _: realwork.RULES,
    "headtohead": _headtohead,
}


def judge(experiment: str, summaries: Sequence[CellSummary]) -> list[Verdict]:
    """Return what the rules of ``experiment`` say about its cells, the soundness first.

    Figures come from complete cells only, each compared within its own repetition. An experiment
    without rules of its own is judged by the soundness of its cells alone.
    """
    found = EXPERIMENTS.get(experiment)
    rules = found(summaries) if found is not None else ()
    verdicts = [apply(rule, repetitions(summaries)) for rule in rules]
    if abandoned(summaries):
        verdicts = [_excused(verdict) for verdict in verdicts]
    return [*soundness(summaries), *verdicts]


def _excused(verdict: Verdict) -> Verdict:
    """Take back a verdict that only holds where nothing fails."""
    if verdict.outcome == "not judged":
        return verdict
    why = "attempts were abandoned and ran again, which the bound does not allow for"
    return replace(verdict, outcome="not judged", why=why)


def _workloads(summaries: Sequence[CellSummary]) -> list[str]:
    return list(dict.fromkeys(each.cell.workload for each in summaries))
