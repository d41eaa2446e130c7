"""One cell in numbers: what was measured, and beside it the ideal server of the same seed.

Everything here is computed from the rows of a :class:`~bench.harness.record.Run` and from nothing
else, so that a table or a plot can be made again from the raw files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from bench.harness.cell import Cell
from bench.harness.figures import Figures, Whole, figures, whole
from bench.harness.record import Ending, Row, Run
from tq_celery.measures import percentile
from tq_celery.workloads.registry import weights as workload_weights

__all__ = ["CellSummary", "Flat", "Group", "summarise"]

#: One line of a table: column -> value; None where there was nothing to measure.
Flat = dict[str, str | float | None]


@dataclass(frozen=True, slots=True)
class Group:
    """The tasks of one tenant or of one priority level, real and ideal."""

    name: str
    real: Figures
    ideal: Figures

    def flat(self) -> Flat:
        """Return the figures by name, the ideal server's with ``ideal_`` before it."""
        return _beside(self.real, self.ideal)


@dataclass(frozen=True, slots=True)
class CellSummary:
    """One cell.

    ``arrivals`` is the seconds from the first planned arrival to the last: ratios between policies
    grow with it wherever more is offered than served. ``lag_p99`` and ``lag_max`` say by how many
    seconds the producer was late against its plan: an offered load that was not offered. CPU and
    server time are microseconds per completed task, None when none completed; ``server_us`` is None
    as well where the server keeps no account of its own. ``others`` are the cores that processes
    which have no part in the cell kept busy meanwhile. ``tenants`` come by number of tasks, the
    largest first, ``priorities`` from the least to the most urgent. Where one tenant sends more
    than half of the tasks, ``quiet`` is what all others send; it is None elsewhere.
    """

    cell: Cell
    seed: int
    slots: int
    ending: Ending
    reason: str
    elapsed: float
    arrivals: float
    real: Whole
    ideal: Whole
    lag_p99: float | None
    lag_max: float | None
    worker_us: float | None
    scheduler_us: float | None
    server_cpu_us: float | None
    server_us: float | None
    producer_us: float | None
    others: float | None
    tenants: tuple[Group, ...]
    priorities: tuple[Group, ...]
    quiet: Group | None

    @property
    def counts(self) -> bool:
        """Whether this cell may be averaged with others: only complete ones are."""
        return self.ending == "complete"

    def identity(self) -> Flat:
        """Return the columns that tell this cell from others."""
        return {**asdict(self.cell), "seed": self.seed, "slots": self.slots}

    def flat(self) -> Flat:
        """Return one line of ``aggregate.csv``: identity, ending, real, ``ideal_`` and costs."""
        return {
            **self.identity(),
            "ending": self.ending,
            "reason": self.reason,
            "elapsed": self.elapsed,
            "arrivals": self.arrivals,
            **_beside(self.real, self.ideal),
            **self._quiet(),
            "lag_p99": self.lag_p99,
            "lag_max": self.lag_max,
            "worker_us": self.worker_us,
            "scheduler_us": self.scheduler_us,
            "server_cpu_us": self.server_cpu_us,
            "server_us": self.server_us,
            "producer_us": self.producer_us,
            "others": self.others,
        }

    def _quiet(self) -> Flat:
        flat: Flat = self.quiet.flat() if self.quiet is not None else {}
        columns = [f"{what}_{q}" for what in ("latency", "wait") for q in ("p50", "p95", "p99")]
        return {
            f"{beside}quiet_{column}": flat.get(beside + column)
            for beside in ("", "ideal_")
            for column in columns
        }

    def flat_tenants(self) -> list[Flat]:
        """Return the lines of ``tenants.csv``."""
        return [self._line("tenant", group) for group in self.tenants]

    def flat_priorities(self) -> list[Flat]:
        """Return the lines of ``priorities.csv``."""
        return [self._line("priority", group) for group in self.priorities]

    def _line(self, column: str, group: Group) -> Flat:
        return {**self.identity(), "ending": self.ending, column: group.name, **group.flat()}


def summarise(run: Run, weights: Mapping[str, float] | None = None) -> CellSummary:
    """Summarise a cell; ``weights`` are the tenants', by default those of the workload."""
    if weights is None:
        weights = workload_weights(run.cell.workload)
    tenants = _groups(run, lambda row: row.tenant)
    tenants.sort(key=lambda group: (-group.real.tasks, group.name))
    priorities = _groups(run, lambda row: str(row.priority))
    real = whole(run.rows, run.slots, weights)
    lags = sorted(row.lag for row in run.rows)

    def each(amount: float) -> float | None:
        return amount / real.completed if real.completed else None

    return CellSummary(
        cell=run.cell,
        seed=run.seed,
        slots=run.slots,
        ending=run.ending,
        reason=run.reason,
        elapsed=run.elapsed,
        arrivals=max((row.scheduled for row in run.rows), default=0.0),
        real=real,
        ideal=whole(run.ideal, run.slots, weights),
        lag_p99=percentile(lags, 99) if lags else None,
        lag_max=lags[-1] if lags else None,
        worker_us=each(run.worker_cpu * 1e6),
        scheduler_us=each(run.scheduler_cpu * 1e6),
        server_cpu_us=each(run.server_cpu * 1e6),
        server_us=each(run.server_us) if run.server_us else None,
        producer_us=each(run.producer_cpu * 1e6),
        others=run.others,
        tenants=tuple(tenants),
        priorities=tuple(sorted(priorities, key=lambda group: int(group.name))),
        quiet=_quiet(run, tenants),
    )


def _quiet(run: Run, tenants: Sequence[Group]) -> Group | None:
    """Return all tenants but the one that sends most, if that is more than half of the tasks."""
    if len(tenants) < 2 or 2 * tenants[0].real.tasks <= len(run.rows):
        return None
    loud = tenants[0].name
    real, ideal = ([r for r in rows if r.tenant != loud] for rows in (run.rows, run.ideal))
    return Group("quiet", figures(real), figures(ideal))


def _groups(run: Run, name: Callable[[Row], str]) -> list[Group]:
    real, ideal = _split(run.rows, name), _split(run.ideal, name)
    return [
        Group(each, figures(real.get(each, ())), figures(ideal.get(each, ())))
        for each in {**real, **ideal}
    ]


def _split(rows: Sequence[Row], name: Callable[[Row], str]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(name(row), []).append(row)
    return groups


def _beside(real: Figures, ideal: Figures) -> Flat:
    return {**asdict(real), **{f"ideal_{name}": value for name, value in asdict(ideal).items()}}
