"""``python -m bench guards``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from bench.experiments.guards.account import GUARDS, Guard, Shown, faults
from bench.experiments.guards.chart import draw
from bench.experiments.guards.run import run
from bench.harness import environment
from bench.harness.options import common, repetitions, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.servers import redis_server
from bench.harness.turns import turns

__all__ = ["command"]

#: Names of the two kinds of run.
KINDS = ("with", "without")


@click.command("guards")
@click.option(
    "--guard", "names", multiple=True, type=click.Choice([guard.name for guard in GUARDS]),
    help="Only these.",
)  # fmt: skip
@click.option(
    "--chart", type=click.Path(dir_okay=False, path_type=Path), help="Draw the counts as a PNG."
)
@repetitions(3)
@server_kind
@common
def command(
    names: tuple[str, ...],
    chart: Path | None,
    repetitions: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Meet the same fault with each guard and without it: what does the guard prevent?"""
    guards = [guard for guard in GUARDS if not names or guard.name in names]
    start = environment.describe()
    runs: dict[str, dict[str, list[Shown]]] = {
        guard.name: {word: [] for word in KINDS} for guard in guards
    }
    with redis_server(server) as redis:
        version = redis.version
        for repetition, (guard, word) in turns(
            repetitions, [(guard, word) for guard in guards for word in KINDS]
        ):
            shown = run(guard, redis, removed=word == "without")
            runs[guard.name][word].append(shown)
            progress(
                f"guards {repetition + 1}/{repetitions} {guard.name} {word}: "
                f"{shown.violations(guard)} {guard.violation}"
            )
    if chart is not None:
        draw(runs, chart)
    wrong = {
        guard.name: faults(guard, runs[guard.name]["with"], runs[guard.name]["without"])
        for guard in guards
    }
    emit(
        table(
            ["guard", "taken away", "violation", "with", "without", "tq verify finds", "verdict"],
            [_row(guard, runs[guard.name], not wrong[guard.name]) for guard in guards],
        ),
        {
            "experiment": "guards",
            "passed": {name: not words for name, words in wrong.items()},
            "wrong": wrong,
            "arms": {guard.name: _result(guard, runs[guard.name]) for guard in guards},
            "repetitions": repetitions,
            "environment": {**start, "servers": [version]},
        },
        as_json,
        save,
    )
    for words in wrong.values():
        if words:
            raise click.ClickException(words[0])


def _counts(guard: Guard, several: list[Shown]) -> str:
    """Return the violations of each run, or the one figure where all are alike."""
    found = [each.violations(guard) for each in several]
    return str(found[0]) if len(set(found)) == 1 else " ".join(map(str, found))


def _row(guard: Guard, runs: dict[str, list[Shown]], proved: bool) -> list[object]:
    found = sorted({promise for each in runs["without"] for promise in each.broken})
    return [
        guard.name,
        guard.removed,
        guard.violation,
        _counts(guard, runs["with"]),
        _counts(guard, runs["without"]),
        ", ".join(found) or "-",
        "proved" if proved else "FAILED",
    ]


def _result(guard: Guard, runs: dict[str, list[Shown]]) -> dict[str, Any]:
    return {
        "removed": guard.removed,
        "violation": guard.violation,
        **{
            word: {
                "violations": [each.violations(guard) for each in several],
                "runs": [asdict(each) for each in several],
            }
            for word, several in runs.items()
        },
    }
