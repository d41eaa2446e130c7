"""The cells of one repetition, found by what they ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.harness.summary import CellSummary

__all__ = ["Repetition", "repetitions"]


class Repetition:
    """What may be compared with each other: complete cells with one seed and one load."""

    def __init__(self, cells: Iterable[CellSummary]) -> None:
        self._cells = {
            (each.cell.arm, each.cell.workload, each.cell.load, each.cell.exec): each
            for each in cells
            if each.counts
        }

    def get(
        self, arm: str, workload: str, load: float | None = None, exec_: str | None = None
    ) -> CellSummary | None:
        """Return the cell, None when it is missing, or when what is left open leaves a choice."""
        found = [
            cell
            for (an_arm, a_workload, a_load, an_exec), cell in self._cells.items()
            if (an_arm, a_workload) == (arm, workload)
            and load in (None, a_load)
            and exec_ in (None, an_exec)
        ]
        return found[0] if len(found) == 1 else None

    def all(
        self,
        arms: Sequence[str],
        workload: str,
        load: float | None = None,
        exec_: str | None = None,
    ) -> list[CellSummary] | None:
        """Return a cell of each arm, in order; None when one is missing."""
        found = [self.get(arm, workload, load, exec_) for arm in arms]
        present = [cell for cell in found if cell is not None]
        return present if len(present) == len(found) else None

    @property
    def loads(self) -> list[float]:
        """The loads there are cells of, ascending."""
        return sorted({load for _, _, load, _ in self._cells})


def repetitions(summaries: Iterable[CellSummary]) -> list[Repetition]:
    """Return the cells by repetition, in order."""
    numbered: dict[int, list[CellSummary]] = {}
    for summary in summaries:
        numbered.setdefault(summary.cell.repetition, []).append(summary)
    return [Repetition(numbered[number]) for number in sorted(numbered)]
