"""Writes everything that is derived from a run's raw data: tables, plots, verdicts, the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.harness.page.page import page
from bench.harness.plots import render as draw
from bench.harness.plots.view import View
from bench.harness.results import atomic, tables
from bench.harness.results.manifest import Manifest
from bench.harness.summary import CellSummary
from bench.harness.verdicts.verdict import Verdict

__all__ = ["render"]


def render(
    folder: Path,
    manifest: Manifest,
    summaries: Sequence[CellSummary],
    verdicts: Sequence[Verdict],
) -> Path:
    """Write the derived files of a run anew and return the path of its page.

    Plots of an earlier rendering that there is nothing to show for any more are removed.
    """
    tables.write(folder, summaries)
    plots = list(draw(View(summaries)))
    drawn = {f"{plot.name}.{kind}" for plot in plots for kind in ("png", "svg")}
    for stale in (folder / "plots").glob("*"):
        if stale.name not in drawn:
            stale.unlink()
    for plot in plots:
        atomic.write(folder / "plots" / f"{plot.name}.png", plot.png)
        atomic.write(folder / "plots" / f"{plot.name}.svg", plot.svg)
    judged = json.dumps([asdict(verdict) for verdict in verdicts], indent=1, sort_keys=True)
    atomic.write(folder / "verdicts.json", judged + "\n")
    there = {summary.cell.name for summary in summaries}
    letters = {
        path.stem: json.loads(path.read_text())
        for path in sorted((folder / "dead_letters").glob("*.json"))
        if path.stem in there
    }
    target = folder / "report.html"
    atomic.write(target, page(manifest, summaries, verdicts, plots, letters))
    return target
