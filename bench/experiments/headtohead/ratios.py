"""Ours against every stock arm, as ratios formed within a repetition. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bench.experiments.headtohead.crossover import Crossover, Point, crossover
from bench.harness.cell import backlog_name, duration
from bench.harness.measure import Spread, paired_ratio
from bench.harness.summary import CellSummary

__all__ = ["Ratios"]

Figure = Callable[[CellSummary], float | None]


def _throughput(cell: CellSummary) -> float | None:
    return cell.real.throughput


def _quiet_p95(cell: CellSummary) -> float | None:
    return None if cell.quiet is None else cell.quiet.real.latency_p95


class Ratios:
    """The complete cells of a run, by what they ran."""

    def __init__(self, summaries: Iterable[CellSummary]) -> None:
        self._cells: dict[tuple[str, str], dict[int, CellSummary]] = {}
        for each in summaries:
            if each.counts:
                place = self._cells.setdefault((each.cell.workload, each.cell.arm), {})
                place[each.cell.repetition] = each
        self.workloads = list(dict.fromkeys(workload for workload, _ in self._cells))
        self.arms = list(dict.fromkeys(arm for _, arm in self._cells))

    @property
    def durations(self) -> list[float]:
        """The milliseconds of the backlogs, ascending."""
        found = map(duration, self.workloads)
        return sorted(ms for ms in found if ms is not None)

    def throughput(self, ours: str, rival: str, workload: str) -> Spread | None:
        """Return ours / the rival's tasks per second; None without a repetition of both."""
        return self._ratio(workload, ours, rival, _throughput)

    def quiet(self, ours: str, rival: str, workload: str) -> Spread | None:
        """Return the rival's / our p95 latency of all tenants but the one that sends most."""
        return self._ratio(workload, rival, ours, _quiet_p95)

    def crossover(self, ours: str, rival: str) -> Crossover:
        """Return below which duration of a task ours has less throughput than the rival."""
        ratios = [(ms, self.throughput(ours, rival, backlog_name(ms))) for ms in self.durations]
        return crossover([Point(ms, ratio.median) for ms, ratio in ratios if ratio is not None])

    def _ratio(self, workload: str, above: str, below: str, figure: Figure) -> Spread | None:
        over = self._cells.get((workload, above), {})
        under = self._cells.get((workload, below), {})
        pairs = [
            (top, bottom)
            for repetition in sorted(over.keys() & under.keys())
            if (top := figure(over[repetition])) and (bottom := figure(under[repetition]))
        ]
        return paired_ratio(*zip(*pairs, strict=True)) if pairs else None

    def as_json(self, ours: Sequence[str], rivals: Sequence[str]) -> dict[str, object]:
        """Return every ratio by what is compared, our arm, the rival and the workload."""
        throughput: dict[str, dict[str, object]] = {}
        quiet: dict[str, dict[str, object]] = {}
        crossovers: dict[str, dict[str, object]] = {}
        for mine in ours:
            throughput[mine] = {
                rival: self._by_workload(self.throughput, mine, rival) for rival in rivals
            }
            quiet[mine] = {rival: self._by_workload(self.quiet, mine, rival) for rival in rivals}
            crossovers[mine] = {rival: self.crossover(mine, rival)._asdict() for rival in rivals}
        return {"throughput": throughput, "quiet_p95": quiet, "crossover": crossovers}

    def _by_workload(
        self, ratio: Callable[[str, str, str], Spread | None], ours: str, rival: str
    ) -> dict[str, dict[str, float]]:
        found = {workload: ratio(ours, rival, workload) for workload in self.workloads}
        return {name: value._asdict() for name, value in found.items() if value is not None}
