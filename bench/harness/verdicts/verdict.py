"""A pass rule as data, and what it says about a run. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

__all__ = ["Measured", "Result", "Rule", "Verdict", "apply"]

#: ``not judged`` has its reason in ``why``.
Result = Literal["pass", "fail", "not judged"]


class Measured(NamedTuple):
    """One repetition's figure, and the ideal server's where it has one."""

    value: float
    ideal: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says.

    ``measured`` is the median over the repetitions, ``least`` and ``greatest`` their bounds;
    ``ideal`` is the ideal server's median where the rule is stated against it. ``bound`` says in
    words what is allowed, and is empty where a figure is only published.
    """

    name: str
    measured: float | None
    least: float | None
    greatest: float | None
    ideal: float | None
    bound: str
    repetitions: int
    outcome: Result
    why: str


#: What a rule looks at in one repetition: the cells of it.
Cells = TypeVar("Cells")


@dataclass(frozen=True, slots=True)
class Rule(Generic[Cells]):
    """What has to hold.

    ``measure`` returns a repetition's figure, None when it lacks a cell for it; ``needs`` says in
    words which cells that takes. The median has to be ``at_most`` and ``at_least``; with neither
    the figure is only published. ``note`` explains the figure to the reader of the report.
    """

    name: str
    needs: str
    measure: Callable[[Cells], Measured | None]
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def bound(self) -> str:
        """The bounds in words."""
        parts = [
            f"at {word} {limit:g}"
            for word, limit in (("least", self.at_least), ("most", self.at_most))
            if limit is not None
        ]
        return " and ".join(parts)

    def allows(self, value: float) -> bool:
        """Return whether ``value`` is within the bounds, on them included."""
        return (self.at_most is None or value <= self.at_most) and (
            self.at_least is None or value >= self.at_least
        )


def apply(rule: Rule[Cells], repetitions: Sequence[Cells]) -> Verdict:
    """Judge the median over the repetitions that have a figure; without one there is no verdict."""
    found = [each for each in map(rule.measure, repetitions) if each is not None]
    if not found:
        return Verdict(
            rule.name, None, None, None, None, rule.bound, 0, "not judged",
            f"no complete cells to compare, or figures of 0: {rule.needs}",
        )  # fmt: skip
    values = [each.value for each in found]
    ideals = [each.ideal for each in found if each.ideal is not None]
    median = statistics.median(values)
    outcome: Result = "pass" if rule.allows(median) else "fail"
    why = rule.note
    if not rule.bound:
        outcome, why = "not judged", rule.note or "published, without a bound"
    return Verdict(
        name=rule.name,
        measured=median,
        least=min(values),
        greatest=max(values),
        ideal=statistics.median(ideals) if ideals else None,
        bound=rule.bound,
        repetitions=len(found),
        outcome=outcome,
        why=why,
    )
