"""The loop of every experiment that is made of cells: what is not there yet is run and kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import redis

from bench.harness import environment
from bench.harness.bar import Bar
from bench.harness.cell import Cell, Exec, Profile
from bench.harness.course import Watch
from bench.harness.drive import expected_seconds, run_cell
from bench.harness.errors import BenchError
from bench.harness.lab import Lab
from bench.harness.record import Run
from bench.harness.report import progress
from bench.harness.results import Results
from bench.harness.summary import CellSummary
from bench.harness.verdicts import Verdict, judge
from tq_celery.errors import TQError

__all__ = ["Finished", "RunCell", "grid", "run_cells", "run_experiment"]

#: Cells in a row that may fail before the run gives up: then it is not the cell.
FAILURES = 3


class RunCell(Protocol):
    """What runs one cell: :func:`bench.harness.drive.run_cell`, or something like it."""

    def __call__(self, cell: Cell, profile: Profile, lab: Lab, watch: Watch) -> Run: ...


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run has come to; ``page`` is its report."""

    summaries: list[CellSummary]
    verdicts: list[Verdict]
    page: Path
    environment: dict[str, object]


def grid(
    arms: Sequence[str],
    workloads: Sequence[str],
    profile: Profile,
    loads: Sequence[float] | None = None,
    execs: Sequence[Exec] | None = None,
) -> list[Cell]:
    """Return every combination, repetition by repetition.

    The arms of one workload run next to each other, and the order in which they do turns round
    with every repetition: drift of the machine then does not favour one of them. What is named
    twice is run once.
    """
    cells = []
    once = list(dict.fromkeys(arms))
    for repetition in range(profile.repetitions):
        turned = once if repetition % 2 == 0 else once[::-1]
        for workload in dict.fromkeys(workloads):
            for load in dict.fromkeys(loads or (profile.load,)):
                for how in execs or (profile.exec,):
                    cells += [Cell(arm, workload, load, how, repetition) for arm in turned]
    return cells


def run_cells(
    cells: Iterable[Cell], profile: Profile, results: Results, lab: Lab, run: RunCell = run_cell
) -> None:
    """Run each cell that ``results`` lacks, one at a time, and add it to them.

    A cell that fails is kept as such and the next one is run. Raises BenchError when processes do
    not start, a server does not answer, or three cells in a row fail. Whatever ends the run,
    interruption included, finished cells are kept.
    """
    missing = [cell for cell in cells if not results.has(cell)]
    bar = Bar(missing, lambda cell: expected_seconds(cell, profile))
    failures = 0
    try:
        for cell in missing:
            bar.begin()
            found = _run(run, cell, profile, lab, bar.watch)
            results.add(found)
            bar.end(found)
            _note_servers(results, lab)
            failures = failures + 1 if found.ending == "failed" else 0
            if failures == FAILURES:
                raise BenchError(f"{FAILURES} cells in a row failed, lastly: {found.reason}")
    except BaseException:
        bar.clear()
        progress(f"finished cells are kept in {results.path}: the same command goes on from there")
        raise


def _note_servers(results: Results, lab: Lab) -> None:
    """Keep how the servers are set up, which a resumed run may know of others already."""
    known = results.notes.get("server_config", {})
    found = {**known, **lab.configuration()}
    if found != known:
        results.note("server_config", found)


def _run(run: RunCell, cell: Cell, profile: Profile, lab: Lab, watch: Watch) -> Run:
    try:
        return run(cell, profile, lab, watch)
    except (redis.RedisError, TQError) as error:
        raise BenchError(f"{cell.name}: the server of the arm failed: {error}") from error


def run_experiment(
    experiment: str,
    cells: Sequence[Cell],
    profile: Profile,
    out: Path,
    settings: Mapping[str, object] | None = None,
    run: RunCell = run_cell,
) -> Finished:
    """Run ``cells`` into the folder ``out``, or what is missing there; judge and render them."""
    described = environment.describe()
    with (
        Results.open(out, experiment, profile, cells, described, settings) as results,
        Lab(profile.server) as lab,
    ):
        run_cells(cells, profile, results, lab, run)
        summaries = results.summaries()
        verdicts = judge(experiment, summaries, profile.failure)
        page = results.finish(verdicts)
        servers = sorted(lab.versions.values())
        return Finished(summaries, verdicts, page, {**described, "servers": servers})
