"""Whether a run may be believed at all: every cell whole, every task accounted for, load offered.

These rules look at all cells, those that are never averaged included.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.harness.summary import CellSummary
from bench.harness.verdicts.verdict import Measured, Rule, Verdict, apply

__all__ = ["LATE", "OTHERS", "soundness"]

#: Seconds by which 99 of 100 tasks may be submitted late: an offered load that was not offered
#: would flatter whoever is slow.
LATE = 0.05
#: Cores that processes without a part in a cell may keep busy: more than servers that idle and an
#: operating system that keeps house.
OTHERS = 0.2


def soundness(summaries: Sequence[CellSummary], failing: bool = False) -> list[Verdict]:
    """Return the verdicts on cells, tasks and load; none for no cells.

    With ``failing``, attempts were abandoned on purpose, and what they repeat is only published.
    """
    if not summaries:
        return []
    return [apply(rule, [summaries]) for rule in _rules(failing)]


def _unfinished(summaries: Sequence[CellSummary]) -> Measured:
    return Measured(sum(not each.counts for each in summaries))


def _lost(summaries: Sequence[CellSummary]) -> Measured:
    return Measured(sum(each.real.missing for each in summaries if each.counts))


def _dead(summaries: Sequence[CellSummary]) -> Measured:
    return Measured(sum(each.real.dead for each in summaries))


def _repeats(summaries: Sequence[CellSummary]) -> Measured:
    return Measured(sum(each.real.repeats for each in summaries))


def _lag(summaries: Sequence[CellSummary]) -> Measured | None:
    lags = [each.lag_p99 for each in summaries if each.counts and each.lag_p99 is not None]
    return Measured(max(lags)) if lags else None


def _others(summaries: Sequence[CellSummary]) -> Measured | None:
    known = [each.others for each in summaries if each.counts and each.others is not None]
    return Measured(max(known)) if known else None


def _rules(failing: bool) -> tuple[Rule[Sequence[CellSummary]], ...]:
    return (
        Rule("cells that are not complete", "any", _unfinished, at_most=0),
        Rule("tasks of complete cells without an outcome", "any", _lost, at_most=0),
        Rule("dead letters", "any", _dead),
        Rule(
            "executions beyond a task's first", "any", _repeats, at_most=None if failing else 0,
            note="of attempts that were abandoned on purpose" if failing else "",
        ),
        Rule(
            "producer's p99 lag in s, worst cell", "any", _lag, at_most=LATE,
            note="the offered load was offered",
        ),
        Rule(
            "cores that others kept busy, worst cell", "any", _others, at_most=OTHERS,
            note="the machine was the lab's alone",
        ),
    )  # fmt: skip
