"""What the commands that run cells share: their options, and what they print at the end."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from bench.harness.bar import in_words
from bench.harness.cell import Cell, Profile
from bench.harness.cells import Finished, RunCell, run_experiment
from bench.harness.drive import expected_seconds, run_cell
from bench.harness.options import common
from bench.harness.profiles import NAMES, load_profile
from bench.harness.report import emit, progress, table
from bench.harness.summary import CellSummary
from tq_celery.setting_checks import did_you_mean

__all__ = ["Word", "cell_options", "profile_of", "run_and_tell"]

Command = Callable[..., Any]


class Word(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """One of a few words; what was probably meant is part of the error."""

    name = "word"

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return ``value`` if it is one of the words."""
        if value not in self.words:
            hint = did_you_mean(str(value).lower(), self.words)
            self.fail(f"{value!r} is not one of {', '.join(self.words)}{hint}", param, ctx)
        return str(value)


def cell_options(default: str = "quick") -> Callable[[Command], Command]:
    """Return a decorator that adds ``--profile`` (with its default), ``--out`` and the like."""

    def add(command: Command) -> Command:
        for option in (
            click.option(
                "--out", type=click.Path(file_okay=False, path_type=Path),
                help="Folder of the results; an unfinished run in it is resumed. "
                "Default: results/EXPERIMENT-PROFILE.",
            ),
            click.option(
                "--repetitions", type=click.IntRange(1, 1000),
                help="Instead of the profile's; repetition i uses seed + i.",
            ),
            click.option(
                "--profile", default=default, show_default=True, metavar="NAME|FILE.toml",
                help=f"What all cells share: {', '.join(NAMES)}, or a file.",
            ),
        ):  # fmt: skip
            command = option(command)
        return common(command)

    return add


def profile_of(name: str, repetitions: int | None) -> Profile:
    """Return the profile that the options ask for; raises BenchError."""
    profile = load_profile(name)
    if repetitions is not None:
        profile = dataclasses.replace(profile, repetitions=repetitions)
    return profile


def run_and_tell(
    experiment: str,
    cells: Sequence[Cell],
    profile: Profile,
    out: Path | None,
    as_json: bool,
    save: Path | None,
    settings: dict[str, object] | None = None,
    run: RunCell = run_cell,
) -> Finished:
    """Run the cells of an experiment and print cells, verdicts and where the report is."""
    folder = out or Path("results") / f"{experiment}-{profile.name}"
    about = in_words(sum(expected_seconds(cell, profile) for cell in cells))
    progress(f"{experiment}: {len(cells)} cells, about {about} in all, into {folder}")
    finished = run_experiment(experiment, cells, profile, folder, settings, run)
    verdicts = [dataclasses.asdict(verdict) for verdict in finished.verdicts]
    text = "\n\n".join(
        [_cells(finished.summaries), _verdicts(finished), f"report: {finished.page}"]
    )
    emit(
        text,
        {
            "experiment": experiment,
            "folder": str(folder),
            "report": str(finished.page),
            "cells": [summary.flat() for summary in finished.summaries],
            "verdicts": verdicts,
            "environment": finished.environment,
        },
        as_json,
        save,
    )
    return finished


#: Columns of the table: heading, field of the summary's real figures, factor.
_COLUMNS = (
    ("p50 s", "latency_p50"),
    ("p95 s", "latency_p95"),
    ("p99 s", "latency_p99"),
    ("longest wait s", "wait_max"),
    ("tasks/s", "throughput"),
    ("missed", "miss_rate"),
    ("busy", "utilisation"),
)


def _cells(summaries: Sequence[CellSummary]) -> str:
    """Return the medians over the complete repetitions."""
    groups: dict[tuple[object, ...], list[CellSummary]] = {}
    for each in summaries:
        cell = each.cell
        groups.setdefault((cell.workload, cell.arm, cell.load, cell.exec), []).append(each)
    rows = []
    for (workload, arm, load, how), found in groups.items():
        complete = [each for each in found if each.counts]
        row: list[object] = [workload, arm, f"{load:g} x", how, f"{len(complete)}/{len(found)}"]
        for _, field in _COLUMNS:
            values = [getattr(each.real, field) for each in complete]
            known = [value for value in values if value is not None]
            row.append(statistics.median(known) if known else "-")
        rows.append(row)
    return table(
        ["workload", "arm", "load", "exec", "complete", *(heading for heading, _ in _COLUMNS)], rows
    )


def _verdicts(finished: Finished) -> str:
    def shown(value: float | None) -> object:
        return "-" if value is None else f"{value:.4g}"

    return table(
        ["rule", "measured", "least", "greatest", "ideal", "bound", "verdict"],
        [
            [
                each.name, shown(each.measured), shown(each.least), shown(each.greatest),
                shown(each.ideal), each.bound or "-", each.outcome,
            ]
            for each in finished.verdicts
        ],
    )  # fmt: skip
