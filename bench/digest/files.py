"""What the documentation keeps of a run: three small CSVs and one JSON, named by the run.

``NAME.csv`` has a figure a line, ``NAME-ratios.csv`` a ratio a line, ``NAME-verdicts.csv`` a pass
rule a line, ``NAME-about.json`` the configuration, what was left out, and the machine. Their bytes
depend on the run alone.
"""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.digest.reduce import Line, Ratio, lines, measured, ratios
from bench.harness.errors import BenchError
from bench.harness.results import Results
from bench.harness.results.atomic import write
from bench.harness.results.tables import text
from bench.harness.summary import Flat
from bench.harness.verdicts import judge

__all__ = ["Record", "digest", "read_csv", "read_json"]

#: A line of a CSV: column -> text.
Record = dict[str, str]


def digest(run: Path, folder: Path, name: str | None = None) -> list[Path]:
    """Reduce the folder of a run to files in ``folder``, replacing earlier ones; returns them.

    ``name`` is the experiment's unless given. BenchError when there is no such run, or none of its
    cells is complete.
    """
    with Results.read(run) as results:
        manifest, summaries = results.manifest, results.summaries()
    found = measured(summaries)
    if not found:
        raise BenchError(f"{run} has no complete cell: nothing to keep")
    about = {
        "experiment": manifest.experiment,
        "profile": manifest.profile,
        "settings": manifest.settings,
        "seeds": manifest.seeds,
        "notes": manifest.notes,
        "cells": {
            "planned": len(manifest.cells),
            "complete": sum(each.counts for each in summaries),
            "left_out": {each.cell.name: each.ending for each in summaries if not each.counts},
        },
        "sessions": manifest.sessions,
    }
    name = name or manifest.experiment
    verdicts = judge(manifest.experiment, summaries, manifest.failure)
    contents = {
        f"{name}.csv": text(map(_flat, lines(found))),
        f"{name}-ratios.csv": text(map(_flat, ratios(found))),
        f"{name}-verdicts.csv": text(map(asdict, verdicts)),
        f"{name}-about.json": json.dumps(about, indent=1, sort_keys=True) + "\n",
    }
    for file, content in contents.items():
        write(folder / file, content)
    return [folder / file for file in contents]


def _flat(of: Line | Ratio) -> Flat:
    return {**of.place._asdict(), **{key: of._asdict()[key] for key in of._fields[1:]}}


def read_csv(path: Path) -> list[Record]:
    """Return the lines of a CSV by column; BenchError when there is no such file."""
    return list(csv.DictReader(io.StringIO(_read(path))))


def read_json(path: Path) -> Any:
    """Return what a JSON file holds; BenchError when there is no such file, or it is none."""
    try:
        return json.loads(_read(path))
    except ValueError as error:
        raise BenchError(f"{path} is not JSON: {error}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BenchError(f"{path} cannot be read: {error.strerror}") from error
