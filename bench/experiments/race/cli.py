"""``python -m bench race``: pops that meet each other, and the tasks claimed twice."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from bench.experiments.race.pops import POPS
from bench.experiments.race.run import Claims, race
from bench.harness import environment
from bench.harness.errors import BenchError
from bench.harness.measure import spread
from bench.harness.options import common, repetitions, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.servers import redis_server
from bench.harness.turns import turns

__all__ = ["command"]


@click.command("race")
@click.option(
    "--workers", default=10, show_default=True, type=click.IntRange(2, 100),
    help="Workers that pop at the same moment.",
)  # fmt: skip
@click.option(
    "--rounds", default=100, show_default=True, type=click.IntRange(1, 10_000),
    help="How often they do; there is a task for every pop.",
)  # fmt: skip
@click.option(
    "--gap", default=1.0, show_default=True, type=click.FloatRange(0, 100),
    help="Milliseconds between the two steps of a pop.",
)  # fmt: skip
@repetitions(5)
@server_kind
@common
def command(
    workers: int,
    rounds: int,
    gap: float,
    repetitions: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Pop with ten workers at once: how many tasks are claimed twice?"""
    start = environment.describe()
    runs: dict[str, list[Claims]] = {way: [] for way in POPS}
    with redis_server(server) as redis:
        for repetition, way in turns(repetitions, tuple(POPS)):
            found = race(redis, way, workers, rounds, gap / 1000)
            runs[way].append(found)
            progress(f"race {repetition + 1}/{repetitions} {way}: {found.double} claimed twice")
        version = redis.version
    passed = not any(
        found.double or found.empty for way in ("scripted", "tq") for found in runs[way]
    )
    rows = [
        [
            way,
            spread([found.claims for found in kept]).median,
            *spread([found.double for found in kept]),
            max(found.worst for found in kept),
            spread([found.empty for found in kept]).median,
        ]
        for way, kept in runs.items()
    ]
    headers = ["pop", "claims", "claimed twice", "min", "max", "workers with one", "empty"]
    emit(
        table(headers, rows) + f"\n{'passed' if passed else 'FAILED'}",
        {
            "experiment": "race",
            "passed": passed,
            "double": {
                way: spread([found.double for found in kept])._asdict()
                for way, kept in runs.items()
            },
            "raw": {way: [asdict(found) for found in kept] for way, kept in runs.items()},
            "load": {"workers": workers, "rounds": rounds, "gap_ms": gap},
            "repetitions": repetitions,
            "environment": {**start, "servers": [version]},
        },
        as_json,
        save,
    )
    if not passed:
        raise BenchError("a scripted pop gave one task to two workers, or none to one")
