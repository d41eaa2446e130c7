"""What plots and tables look at: the complete cells of a run, arranged and put together. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from bench.harness.cell import Cell, duration
from bench.harness.measure import Spread, spread
from bench.harness.summary import CellSummary

__all__ = ["ARMS", "Place", "View"]

#: All arms, in the order in which they are shown.
ARMS = (
    "tq-none", "tq-fifo", "tq-priority", "tq-edf", "tq-wfq", "redis", "redis-priority",
    "rabbitmq", "rabbitmq-priority", "tenant-queues", "dynamic-priority", "redis-plus",
)  # fmt: skip

#: A figure of a cell; None where there was nothing to measure.
Figure = Callable[[CellSummary], float | None]


class Place(NamedTuple):
    """Cells that may be compared: they differ in the arm and the repetition only."""

    workload: str
    exec: str
    load: float

    @classmethod
    def of(cls, cell: Cell) -> Place:
        return cls(cell.workload, cell.exec, cell.load)


class View:
    """The cells that count, by place, arm and repetition."""

    def __init__(self, summaries: Iterable[CellSummary]) -> None:
        self.cells = [summary for summary in summaries if summary.counts]
        self._at: dict[tuple[Place, str], list[CellSummary]] = {}
        for summary in sorted(self.cells, key=lambda each: each.cell.repetition):
            self._at.setdefault((Place.of(summary.cell), summary.cell.arm), []).append(summary)
        self.places = list(dict.fromkeys(Place.of(summary.cell) for summary in self.cells))
        seen = {summary.cell.arm for summary in self.cells}
        self.arms = [arm for arm in ARMS if arm in seen] + sorted(seen - {*ARMS})

    def at(self, place: Place, arm: str) -> Sequence[CellSummary]:
        """Return the repetitions of an arm at a place."""
        return self._at.get((place, arm), ())

    def arms_at(self, place: Place) -> list[str]:
        """Return the arms that were run at a place, in order."""
        return [arm for arm in self.arms if self.at(place, arm)]

    def spread(self, place: Place, arm: str, figure: Figure) -> Spread | None:
        """Return median, least and greatest over the repetitions; None without any value."""
        values = [value for cell in self.at(place, arm) if (value := figure(cell)) is not None]
        return spread(values) if values else None

    def ratio(self, place: Place, figure: Figure, above: str, below: str) -> Spread | None:
        """Return one arm's figure over another's, repetition by repetition; None without pairs."""
        under = {cell.cell.repetition: figure(cell) for cell in self.at(place, below)}
        values = [
            top / bottom
            for cell in self.at(place, above)
            if (top := figure(cell)) is not None and (bottom := under.get(cell.cell.repetition))
        ]
        return spread(values) if values else None

    @property
    def repetitions(self) -> tuple[int, int]:
        """The fewest and the most repetitions that any arm has anywhere; (0, 0) without cells."""
        counts = [len(cells) for cells in self._at.values()] or [0]
        return min(counts), max(counts)

    def single(self) -> list[Place]:
        """Return the places of one offered load: those that a plot has a panel for."""
        return [
            place
            for place in self.places
            if duration(place.workload) is None and len(self.loads(place)) == 1
        ]

    def swept(self) -> list[Place]:
        """Return one place (of the lowest load) for every workload offered at several loads."""
        return [
            place
            for place in self.places
            if len(loads := self.loads(place)) > 1 and place.load == loads[0]
        ]

    def loads(self, place: Place) -> list[float]:
        """Return the loads at which this workload was offered, ascending."""
        return sorted({each.load for each in self.places if each[:2] == place[:2]})

    def title(self, place: Place) -> str:
        """Return what tells a place from the others of this view."""
        words = [place.workload.replace("_", " ")]
        if len({each.exec for each in self.places}) > 1:
            words.append(place.exec)
        if len({each.load for each in self.single()}) > 1:
            words.append(f"{place.load:g} x load")
        return ", ".join(words)
