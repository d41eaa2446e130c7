"""Which trace a replay reads, and how: the options that name a CSV file's columns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import update_wrapper
from pathlib import Path
from typing import Any

import click

from tq_celery.cli.groups import CommandError, option
from tq_celery.traces import CsvColumns, Job, Skips, read_csv, read_swf

__all__ = ["Source", "trace_options"]

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


@dataclass(frozen=True, slots=True)
class Source:
    """A trace that can be read from the start any number of times; ``columns`` for CSV only."""

    path: Path
    columns: CsvColumns | None
    limit: int | None
    strict: bool

    def jobs(self, skips: Skips) -> Iterator[Job]:
        """Read the chosen jobs, one at a time."""
        if self.columns is None:
            jobs = read_swf(self.path, skips)
        else:
            jobs = read_csv(self.path, self.columns, skips)
        return itertools.islice(jobs, self.limit)

    def skips(self) -> Skips:
        """Return an empty account of lines left out."""
        return Skips(str(self.path), strict=self.strict)


OPTIONS = (
    option(
        "--jobs", type=click.IntRange(min=1), envvar="TQ_REPLAY_JOBS", help="Only the first N jobs."
    ),
    option(
        "--time-column",
        envvar="TQ_REPLAY_TIME_COLUMN",
        help="CSV: submit times, as numbers or ISO 8601.",
    ),
    option("--duration-column", envvar="TQ_REPLAY_DURATION_COLUMN", help="CSV: run times."),
    option(
        "--cost-column",
        "--cost-columns",
        "cost_columns",
        multiple=True,
        metavar="NAMES",
        envvar="TQ_REPLAY_COST_COLUMN",
        help="CSV: costs; several, with commas or given several times, are added up.",
    ),
    option("--tenant-column", envvar="TQ_REPLAY_TENANT_COLUMN", help="CSV: whose a job is."),
    option(
        "--time-unit",
        type=click.Choice(list(UNITS)),
        default="s",
        show_default=True,
        envvar="TQ_REPLAY_TIME_UNIT",
        help="CSV: unit of numeric submit times.",
    ),
    option(
        "--duration-unit",
        type=click.Choice(list(UNITS)),
        default="s",
        show_default=True,
        envvar="TQ_REPLAY_DURATION_UNIT",
        help="CSV: unit of run times.",
    ),
    option(
        "--seconds-per-cost",
        type=click.FloatRange(min=0, min_open=True),
        default=1.0,
        show_default=True,
        envvar="TQ_REPLAY_SECONDS_PER_COST",
        help="CSV without run times: recorded seconds that one unit of cost takes.",
    ),
    option(
        "--strict",
        is_flag=True,
        envvar="TQ_REPLAY_STRICT",
        help="Stop at the first line that is no job instead of counting it.",
    ),
)


def trace_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options above to a command, which gets them as one ``source``."""

    def wrapper(
        *args: Any,
        trace: Path,
        jobs: int | None,
        strict: bool,
        time_column: str | None,
        duration_column: str | None,
        cost_columns: tuple[str, ...],
        tenant_column: str | None,
        time_unit: str,
        duration_unit: str,
        seconds_per_cost: float,
        **others: Any,
    ) -> None:
        costs = tuple(n.strip() for text in cost_columns for n in text.split(",") if n.strip())
        columns = None
        if _is_csv(trace, bool(time_column or duration_column or costs or tenant_column)):
            if not time_column or not (duration_column or costs):
                raise CommandError(
                    f"{trace}: a CSV trace needs --time-column, and --duration-column or "
                    "--cost-column"
                )
            columns = CsvColumns(
                time_column,
                duration_column,
                costs,
                tenant_column,
                UNITS[time_unit],
                UNITS[duration_unit],
                seconds_per_cost,
            )
        function(*args, source=Source(trace, columns, jobs, strict), **others)

    decorated: Callable[..., None] = update_wrapper(wrapper, function)
    for add in reversed(OPTIONS):
        decorated = add(decorated)
    return click.argument("trace", type=click.Path(path_type=Path))(decorated)


def _is_csv(trace: Path, named_columns: bool) -> bool:
    """Say by its name whether the trace is CSV; CommandError when it is nothing we read."""
    name = trace.name.removesuffix(".gz")
    if name.endswith(".csv"):
        return True
    if not name.endswith(".swf"):
        raise CommandError(f"{trace}: expected a name ending in .swf, .csv, .swf.gz or .csv.gz")
    if named_columns:
        raise CommandError("a .swf trace has fixed columns; the --*-column options are for CSV")
    return False
