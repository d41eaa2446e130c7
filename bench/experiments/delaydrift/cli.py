"""``python -m bench delaydrift``: how exact a countdown is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bench.experiments.delaydrift.producer import SECOND
from bench.experiments.delaydrift.run import drift
from bench.harness import environment
from bench.harness.arms import ARMS
from bench.harness.cell_options import Word
from bench.harness.cluster import POOLS
from bench.harness.lab import Lab
from bench.harness.measure import percentile, spread
from bench.harness.options import common, repetitions, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.rivals import not_run, rivals
from bench.harness.standing import standing
from bench.harness.turns import turns

__all__ = ["command"]

DEFAULT = ("tq-wfq", "redis", "rabbitmq")
PERCENTILES = (50, 99, 100)
#: Milliseconds between two calls: far enough apart to be alone, and one right after the other.
PAUSES = (20.0, 0.0)
#: Milliseconds within which 99 of 100 tasks of ours are to start.
BOUND = 50.0
HEADERS = ("arm", "p50 ms", "p99 ms", "latest ms", "p99 over repetitions", "early")


@click.command("delaydrift")
@click.option("--tasks", default=100, show_default=True, type=click.IntRange(10, 10_000))
@click.option(
    "--pause", "pauses", multiple=True, type=click.FloatRange(0, 1_000), default=PAUSES,
    show_default=True, help="Milliseconds between two calls; several are measured in turn.",
)  # fmt: skip
@click.option("--pool", default="threads", show_default=True, type=click.Choice(tuple(POOLS)))
@click.option(
    "--arm", "names", multiple=True, type=Word(ARMS), default=DEFAULT, show_default=True,
    help="Only these.",
)  # fmt: skip
@repetitions(5)
@server_kind
@common
def command(
    tasks: int,
    pauses: tuple[float, ...],
    pool: str,
    names: tuple[str, ...],
    repetitions: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Send tasks that are due in a second: how much later do they start?"""
    start = environment.describe()
    late: dict[str, dict[str, list[list[float]]]] = {}
    with Lab(server) as lab:
        arms, missing = rivals(lab, names)
        for repetition, arm in turns(repetitions, arms):
            with standing(arm, pool) as made:
                for pause in pauses:
                    found = drift(made, tasks, pause / 1000)
                    late.setdefault(arm.name, {}).setdefault(f"{pause:g}", []).append(found)
                    progress(
                        f"delaydrift {repetition + 1}/{repetitions} {arm.name}, {pause:g} ms "
                        f"apart: p99 {percentile(found, 99):.1f} ms"
                    )
        versions = sorted(lab.versions.values())
    figures = {
        arm.name: {pause: _figures(kept) for pause, kept in late[arm.name].items()} for arm in arms
    }
    ours = [of for arm in arms if arm.scheduled for of in figures[arm.name].values()]
    passed = all(not of["early"] and of["p99"]["median"] <= BOUND for of in ours) if ours else None
    emit(
        "\n".join([table(HEADERS, _rows(figures)), *not_run(missing)]),
        {
            "experiment": "delaydrift",
            "passed": passed,
            "late_ms": figures,
            "raw_ms": {
                name: {
                    pause: [[round(each, 3) for each in one] for one in kept]
                    for pause, kept in of.items()
                }
                for name, of in late.items()
            },
            "load": {"tasks": tasks, "pauses_ms": pauses, "pool": pool, "due_s": SECOND},
            "repetitions": repetitions,
            "missing": missing,
            "environment": {**start, "servers": versions},
        },
        as_json,
        save,
    )


def _rows(figures: dict[str, dict[str, dict[str, Any]]]) -> list[list[object]]:
    return [
        [
            f"{name}, {pause} ms apart",
            *(of[f"p{q}"]["median"] for q in PERCENTILES),
            "{min:.1f} to {max:.1f}".format(**of["p99"]),
            of["early"],
        ]
        for name, by_pause in figures.items()
        for pause, of in by_pause.items()
    ]


def _figures(kept: list[list[float]]) -> dict[str, Any]:
    """Return the spread over the repetitions of each percentile, and how many started early."""
    return {
        **{f"p{q}": spread([percentile(one, q) for one in kept])._asdict() for q in PERCENTILES},
        "early": sum(each < 0 for one in kept for each in one),
    }
