"""A recorded workload as a synthetic one is made: its jobs, in the time and at the load asked for.

Times, run times, tenants and costs are the recording's; priorities and deadlines, which hardly any
recording has, are drawn as for every other workload.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tq_celery.errors import SettingsError
from tq_celery.traces import CsvColumns, Job, read_csv, read_swf
from tq_celery.traces.lines import numbered_lines
from tq_celery.workloads.scaling import choose_scale, scaled, survey
from tq_celery.workloads.work import Work

__all__ = ["Trace", "rescaled"]

#: Names of CSV columns that say by themselves what they hold, in lower case.
_TIMES = ("timestamp", "time", "submit", "submitted", "arrival")
_RUN_TIMES = ("duration", "run_time", "runtime", "seconds")
_TENANTS = ("tenant", "user", "customer")


@dataclass(frozen=True, slots=True)
class Trace:
    """A file of recorded jobs; ``columns`` for CSV only. It is read anew for every use."""

    path: Path
    columns: CsvColumns | None = None

    @classmethod
    def of(cls, path: str | Path) -> Trace:
        """Return the trace at ``path``: .swf, .csv, .swf.gz or .csv.gz.

        The columns of a CSV file are known by their names: a time (``timestamp``, ``time``, ...), a
        run time (``duration``, ``run_time``, ...) or costs (``cost``, or anything that ends in
        ``tokens``), and a tenant (``tenant``, ``user``, ...). Raises SettingsError when they are
        not, and TraceError when the file cannot be read.
        """
        path = Path(path)
        name = path.name.removesuffix(".gz")
        if name.endswith(".swf"):
            return cls(path)
        if not name.endswith(".csv"):
            raise SettingsError("trace", str(path), "a .swf, .csv, .swf.gz or .csv.gz file")
        return cls(path, _columns(path))

    def jobs(self, limit: int) -> Iterator[Job]:
        """Yield the first ``limit`` jobs."""
        if self.columns is None:
            return itertools.islice(read_swf(self.path), limit)
        return itertools.islice(read_csv(self.path, self.columns), limit)


def rescaled(
    trace: Trace,
    jobs: int,
    span: float | None,
    rate: float,
    slots: int,
    load: float,
    longest: float,
) -> Iterator[Work]:
    """Yield the first ``jobs`` tasks of a trace, or all it has, without priority and deadline.

    They are submitted within ``span`` seconds, or at a mean ``rate`` without one. Run times keep
    their proportions up to ``longest`` seconds and offer ``load`` times what ``slots`` can do.
    """
    found = survey(trace.jobs(jobs))
    costs = trace.columns is not None and bool(trace.columns.cost)
    span = found.jobs / rate if span is None else span
    scale = choose_scale(
        found, slots, span=span, load=load, max_exec=longest, cost="trace" if costs else "run-time"
    )
    return scaled(trace.jobs(jobs), scale)


def _columns(path: Path) -> CsvColumns:
    _, header = next(numbered_lines(path))
    names = [name.strip().lstrip("\ufeff") for name in header.split(",")]

    def first(known: tuple[str, ...]) -> str | None:
        return next((name for word in known for name in names if name.lower() == word), None)

    time, run_time = first(_TIMES), first(_RUN_TIMES)
    costs = tuple(n for n in names if n.lower() == "cost" or n.lower().endswith("tokens"))
    if time is None or not (run_time or costs):
        raise SettingsError(
            "trace",
            f"{path}: columns {', '.join(names)[:200]}",
            "a time column (timestamp, time, submit) and a duration or cost column (duration, "
            "run_time, seconds, cost, ...tokens)",
        )
    return CsvColumns(time, run_time, costs, first(_TENANTS))
