"""What a reader has to know before believing a figure of a run. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.harness.plots.view import View
from bench.harness.results.manifest import Manifest
from bench.harness.summary import CellSummary
from bench.harness.verdicts.soundness import LATE, OTHERS

__all__ = ["cautions"]

#: One-minute load average above which others were using the machine.
BUSY = 0.3


def cautions(manifest: Manifest, summaries: Sequence[CellSummary]) -> list[str]:
    """Return one sentence for each thing that limits what the run says."""
    return [
        *_repetitions(summaries),
        *_cells(manifest, summaries),
        *_producer(summaries),
        *_others(summaries),
        *_sessions(manifest.sessions),
    ]


def _repetitions(summaries: Sequence[CellSummary]) -> Iterator[str]:
    low, high = View(summaries).repetitions
    if high == 0:
        yield "No cell is complete: there is nothing to compare."
    elif low == 1:
        where = "Everything" if high == 1 else "Part of it"
        yield f"{where} ran once only: without a spread, a difference may be chance."


def _cells(manifest: Manifest, summaries: Sequence[CellSummary]) -> Iterator[str]:
    planned, there = len(manifest.cells), len(summaries)
    if there < planned:
        yield (
            f"{planned - there} of {planned} planned cells are not there. The same command with "
            "this folder runs them."
        )
    void = [summary for summary in summaries if not summary.counts]
    if void:
        yield (
            f"{len(void)} of {there} cells did not come to an end and are in no average: "
            + ", ".join(f"{summary.cell.name} ({summary.ending})" for summary in void[:5])
            + (", …" if len(void) > 5 else "")
        )
    losing = [summary for summary in summaries if summary.counts and summary.real.missing]
    if losing:
        yield f"Tasks are missing in {len(losing)} complete cells: {losing[0].cell.name}, …"


def _producer(summaries: Sequence[CellSummary]) -> Iterator[str]:
    late = [summary for summary in summaries if (summary.lag_p99 or 0.0) > LATE]
    if late:
        worst = max(late, key=lambda summary: summary.lag_p99 or 0.0)
        yield (
            f"In {len(late)} cells the producer was behind its plan (p99 above {LATE * 1000:g} ms, "
            f"at most {(worst.lag_p99 or 0.0) * 1000:,.0f} ms in {worst.cell.name}): less load was "
            "offered than is said."
        )


def _others(summaries: Sequence[CellSummary]) -> Iterator[str]:
    busy = [summary for summary in summaries if (summary.others or 0.0) > OTHERS]
    if busy:
        worst = max(busy, key=lambda summary: summary.others or 0.0)
        yield (
            f"In {len(busy)} cells others were using the machine (more than {OTHERS:g} cores, at "
            f"most {worst.others or 0.0:.2f} in {worst.cell.name}): rates and costs are too bad."
        )


def _sessions(sessions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    # One that was ended before its first cell has measured nothing.
    environments = [session["environment"] for session in sessions if session["cells"]]
    busy = [each["load"] for each in environments if each.get("load", 0) > BUSY]
    if busy:
        yield (
            f"The machine was not idle when the run was started (load {max(busy):g}): something "
            "else was using it."
        )
    for name in sorted({name for each in environments for name in each} - {"load"}):
        values = {json.dumps(each.get(name), sort_keys=True) for each in environments}
        if len(values) > 1:
            yield f"Cells were measured in {len(environments)} sessions that differ in {name}."
