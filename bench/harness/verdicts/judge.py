"""The rules of an experiment, applied to its cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from bench.harness.summary import CellSummary
from bench.harness.verdicts import control, headtohead, matrix, realwork, stability, sweep
from bench.harness.verdicts.cells import Repetition, repetitions
from bench.harness.verdicts.soundness import soundness
from bench.harness.verdicts.verdict import Rule, Verdict, apply

__all__ = ["judge"]

Judge = Callable[[Sequence[CellSummary]], list[Verdict]]

#: Seconds of arrivals below which no bound is meant to hold: nothing has piled up yet.
SHORTEST = 5.0


def _matrix(summaries: Sequence[CellSummary]) -> list[Verdict]:
    return _paired(matrix.RULES, summaries)


def _control(summaries: Sequence[CellSummary]) -> list[Verdict]:
    return _paired(control.rules(_workloads(summaries)), summaries)


def _sweep(summaries: Sequence[CellSummary]) -> list[Verdict]:
    loads = sorted({each.cell.load for each in summaries})
    return _paired(sweep.rules(_workloads(summaries), loads), summaries)


def _realwork(summaries: Sequence[CellSummary]) -> list[Verdict]:
    return _paired(realwork.RULES, summaries)


def _headtohead(summaries: Sequence[CellSummary]) -> list[Verdict]:
    arms = dict.fromkeys(each.cell.arm for each in summaries)
    stock = [arm for arm in arms if not arm.startswith("tq-")]
    return _paired(headtohead.rules(stock, _workloads(summaries)), summaries)


#: Experiment -> what its own rules say.
EXPERIMENTS: dict[str, Judge] = {
    "matrix": _matrix,
    "control": _control,
    "sweep": _sweep,
    "realwork": _realwork,
    "headtohead": _headtohead,
    "repetitions": stability.verdicts,
}


def judge(experiment: str, summaries: Sequence[CellSummary], failure: float = 0.0) -> list[Verdict]:
    """Return what the rules of ``experiment`` say about its cells, the soundness first.

    Figures come from complete cells only, each compared within its own repetition. An experiment
    without rules of its own is judged by the soundness of its cells alone. Bounds are not applied
    where ``failure``, a share of the attempts, was abandoned on purpose, which no ideal server
    knows of, nor to arrivals shorter than :data:`SHORTEST`.
    """
    own = EXPERIMENTS.get(experiment)
    verdicts = own(summaries) if own is not None and summaries else []
    if failure:
        why = "attempts were abandoned and ran again, which the bound does not allow for"
        verdicts = [_excused(verdict, why) for verdict in verdicts]
    if min((each.arrivals for each in summaries if each.counts), default=SHORTEST) < 0.9 * SHORTEST:
        why = f"the bound is for {SHORTEST:g} s of arrivals and more"
        verdicts = [_excused(verdict, why) for verdict in verdicts]
    return [*soundness(summaries, failing=failure > 0), *verdicts]


def _paired(rules: Sequence[Rule[Repetition]], summaries: Sequence[CellSummary]) -> list[Verdict]:
    return [apply(rule, repetitions(summaries)) for rule in rules]


def _excused(verdict: Verdict, why: str) -> Verdict:
    """Take back a verdict whose bound was not meant for this run."""
    if verdict.outcome == "not judged":
        return verdict
    return replace(verdict, outcome="not judged", why=why)


def _workloads(summaries: Sequence[CellSummary]) -> list[str]:
    return list(dict.fromkeys(each.cell.workload for each in summaries))
