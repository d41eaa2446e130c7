"""What every reader yields, and how it accounts for what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tq_celery.errors import TraceError

__all__ = ["Job", "Skips"]


class Job(NamedTuple):
    """One recorded job.

    ``submit`` is seconds since the first job of the file, never decreasing; ``duration`` is its
    run time in seconds of the recording, at least 0; ``tenant`` whose it was; ``cost`` the service
    it took in the unit of the trace (seconds, tokens), above 0 whenever ``duration`` is.
    """

    submit: float
    duration: float
    tenant: str
    cost: float


@dataclass(slots=True)
class Skips:
    """Lines that are no job: how many per reason, and where the first of each stands.

    With ``strict`` the first such line raises :class:`~tq_celery.errors.TraceError` instead.
    """

    path: str
    strict: bool = False
    #: reason -> (count, first line, detail of the first line)
    reasons: dict[str, tuple[int, int, str]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many lines were skipped."""
        return sum(count for count, _, _ in self.reasons.values())

    def add(self, line: int, reason: str, detail: str = "") -> None:
        """Count one skipped line; raises TraceError when ``strict``."""
        if self.strict:
            raise TraceError(self.path, line, f"{reason}: {detail}" if detail else reason)
        count, first, seen = self.reasons.get(reason, (0, line, detail))
        self.reasons[reason] = (count + 1, first, seen)

    def counts(self) -> Mapping[str, int]:
        """Return reason -> count."""
        return {reason: count for reason, (count, _, _) in self.reasons.items()}

    def lines(self) -> list[str]:
        """Return one sentence per reason, most frequent first."""
        ordered = sorted(self.reasons.items(), key=lambda item: (-item[1][0], item[0]))
        return [
            f"skipped {count} {'line' if count == 1 else 'lines'}: {reason} "
            f"(first at line {first}{': ' + detail if detail else ''})"
            for reason, (count, first, detail) in ordered
        ]

    def first(self) -> tuple[int, str] | None:
        """Return the earliest skipped line and why, or ``None``."""
        if not self.reasons:
            return None
        reason, (_, line, detail) = min(self.reasons.items(), key=lambda item: item[1][1])
        return line, f"{reason}: {detail}" if detail else reason
