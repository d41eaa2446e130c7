"""``python -m bench headtohead``: every arm on the same interpreter, one system after the other."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import click

from bench.experiments.headtohead.backlog import backlog_of, run_backlog
from bench.experiments.headtohead.plan import (
    FULL,
    OURS,
    QUICK,
    SMOKE,
    STOCK,
    WORKLOADS,
    Plan,
    cells,
)
from bench.experiments.headtohead.ratios import Ratios
from bench.experiments.headtohead.tables import arrivals, backlogs
from bench.experiments.headtohead.tuning import Kind, kind_of, tune
from bench.harness.cell import Cell, Profile, duration
from bench.harness.cell_options import Word, cell_options, profile_of
from bench.harness.cells import run_cells
from bench.harness.course import Watch
from bench.harness.drive import run_cell
from bench.harness.errors import BenchError
from bench.harness.interpreters import described_by, python_313
from bench.harness.lab import Lab
from bench.harness.record import Run
from bench.harness.report import emit, progress
from bench.harness.results import Results
from bench.harness.verdicts import judge

__all__ = ["command"]

#: Seconds of arrivals of profile ``full``: its own are for a quarter of the arms.
FULL_WINDOW = 10.0
#: Our arms whose ratios are printed: the same order as most rivals, and the one that is for.
SHOWN = ("tq-fifo", "tq-wfq")


@click.command("headtohead")
@click.option("--arm", "arms", multiple=True, type=Word((*STOCK, *OURS)), help="Only these.")
@click.option(
    "--duration",
    "durations",
    multiple=True,
    type=click.IntRange(0, 10_000),
    help="Backlogs of tasks of these milliseconds only.",
)
@click.option("--workload", "workloads", multiple=True, type=Word(WORKLOADS), help="Only these.")
@click.option(
    "--part", type=Word(("durations", "workloads")), help="Only the backlogs, or the arrivals."
)
@click.option(
    "--prefetch", type=click.IntRange(1, 1024), help="Stock multiplier; default: the best one."
)
@cell_options()
def command(
    arms: tuple[str, ...],
    durations: tuple[int, ...],
    workloads: tuple[str, ...],
    part: str | None,
    prefetch: int | None,
    profile: str,
    repetitions: int | None,
    out: Path | None,
    as_json: bool,
    save: Path | None,
) -> None:
    """Compare with stock Celery: backlogs of short to long tasks, and arrivals under overload."""
    chosen = profile_of(profile, repetitions)
    if profile == "full":  # and not a file of that name, whose window is its own
        chosen = dataclasses.replace(chosen, window=FULL_WINDOW)
    plan = _plan(chosen, repetitions, durations, workloads, part, prefetch)
    wanted, missing = list(dict.fromkeys(arms or (*STOCK, *OURS))), dict[str, str]()
    python = _interpreter(wanted, missing)
    described = described_by(python)
    with contextlib.ExitStack() as stack:
        lab = stack.enter_context(Lab(chosen.server, python))
        _without_rabbitmq(wanted, missing, lab)
        for name, reason in missing.items():
            progress(f"headtohead without {name}: {reason}")
        planned = cells(plan, wanted, chosen)
        folder = out or Path("results") / f"headtohead-{chosen.name}"
        settings = {"plan": dataclasses.asdict(plan), "python": described["python"]}
        results = stack.enter_context(
            Results.open(folder, "headtohead", chosen, planned, described, settings)
        )
        results.note("missing", missing)
        multipliers = tune(plan, wanted, chosen, lab, results)
        run = partial(_run, plan=plan, multipliers=multipliers)
        run_cells(planned, chosen, results, lab, run)
        summaries = results.summaries()
        ratios = Ratios(summaries)
        ours = [arm for arm in wanted if arm in OURS]
        rivals = [arm for arm in wanted if arm in STOCK]
        compared = ratios.as_json(ours, rivals)
        results.note("crossover", compared["crossover"])
        verdicts = judge("headtohead", summaries, chosen.failure)
        page = results.finish(verdicts)
        servers = sorted(lab.versions.values())
    shown = [arm for arm in SHOWN if arm in ours]
    emit(
        "\n\n".join(
            [
                *([backlogs(ratios, shown, rivals)] if plan.durations else []),
                *([arrivals(ratios, shown, rivals)] if plan.workloads else []),
                *(f"not run: {name}: {reason}" for name, reason in missing.items()),
                f"report: {page}",
            ]
        ),
        {
            "experiment": "headtohead",
            "ratio": compared,
            "prefetch": results.notes.get("prefetch", {}),
            "missing": missing,
            "folder": str(folder),
            "report": str(page),
            "cells": [summary.flat() for summary in summaries],
            "verdicts": [dataclasses.asdict(verdict) for verdict in verdicts],
            "environment": {**described, "servers": servers},
        },
        as_json,
        save,
    )


def _plan(
    profile: Profile,
    repetitions: int | None,
    durations: tuple[int, ...],
    workloads: tuple[str, ...],
    part: str | None,
    prefetch: int | None,
) -> Plan:
    """Return what the options ask for; a profile of one's own runs the whole."""
    plan = {"smoke": SMOKE, "quick": QUICK}.get(profile.name, FULL)
    if repetitions is not None:
        plan = dataclasses.replace(plan, repetitions=repetitions)
    if prefetch is not None:
        plan = dataclasses.replace(plan, multipliers=(prefetch,), ordered=(prefetch,))
    return dataclasses.replace(
        plan,
        durations=() if part == "workloads" else tuple(sorted({*durations})) or plan.durations,
        workloads=() if part == "durations" else tuple(dict.fromkeys(workloads)) or plan.workloads,
    )


def _interpreter(wanted: list[str], missing: dict[str, str]) -> str:
    """Return the interpreter of every arm; without a 3.13 ``redis-plus`` is left out."""
    if "redis-plus" in wanted:
        try:
            return python_313()
        except BenchError as error:
            wanted.remove("redis-plus")
            missing["redis-plus"] = error.message
    return sys.executable


def _without_rabbitmq(wanted: list[str], missing: dict[str, str], lab: Lab) -> None:
    """Leave out what needs RabbitMQ where there is none."""
    needing = [arm for arm in wanted if arm.startswith("rabbitmq")]
    if needing:
        try:
            lab.rabbitmq  # noqa: B018 - starts it
        except BenchError as error:
            for arm in needing:
                wanted.remove(arm)
                missing[arm] = error.message


def _run(
    cell: Cell,
    profile: Profile,
    lab: Lab,
    watch: Watch,
    *,
    plan: Plan,
    multipliers: Mapping[Kind, dict[str, int]],
) -> Run:
    """Run a backlog or arrivals, with the prefetch setting found for it."""
    lab.prefetch = multipliers[kind_of(cell.workload)]
    ms = duration(cell.workload)
    if ms is None:
        return run_cell(cell, profile, lab, watch)
    seed = profile.seed + cell.repetition
    works = backlog_of(ms / 1000, profile.slots, plan.span, plan.most, seed)
    return run_backlog(cell, profile, lab, watch, works)
