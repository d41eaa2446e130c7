"""``python -m bench latency``: added latency at half load, and the cost of idling."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import click

from bench.experiments.latency.run import Idle, Load, half_load, idle
from bench.harness import environment
from bench.harness.arms import TQArm
from bench.harness.cluster import POOLS
from bench.harness.lab import Lab
from bench.harness.measure import Spread, percentile, spread
from bench.harness.options import common, repetitions, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.rivals import not_run, rivals
from bench.harness.turns import turns

__all__ = ["command"]

PERCENTILES = (50.0, 99.0)
RIVALS = ("redis", "rabbitmq")


@click.command("latency")
@click.option("--tasks", default=3_000, show_default=True, type=click.IntRange(100))
@click.option(
    "--sleep", default=0.02, show_default=True, type=click.FloatRange(0.001),
    help="Seconds each task sleeps.",
)  # fmt: skip
@click.option("--pool", default="threads", show_default=True, type=click.Choice(tuple(POOLS)))
@click.option(
    "--rival", "names", multiple=True, type=click.Choice(RIVALS), default=RIVALS,
    help="Only these.",
)  # fmt: skip
@click.option(
    "--idle", "idle_seconds", default=20.0, show_default=True, type=click.FloatRange(1.0),
    help="Seconds of watching the idle processes.",
)  # fmt: skip
@click.option(
    "--seed", default=1, show_default=True, type=int, help="Of the first repetition's stream."
)
@repetitions(3)
@server_kind
@common
def command(
    tasks: int,
    sleep: float,
    pool: str,
    names: tuple[str, ...],
    idle_seconds: float,
    seed: int,
    repetitions: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Time from delay() to the start of the task at half load, and the idle scheduler's CPU."""
    start = environment.describe()
    # Half of what the pool's slots can do when every task only sleeps.
    load = Load(POOLS[pool][1] / sleep / 2, sleep, tasks, seed)
    late: dict[str, list[list[float]]] = {}
    resting: dict[str, list[Idle]] = {}
    with Lab(server) as lab:
        others, missing = rivals(lab, names)
        arms = [TQArm(lab.redis), *others]
        for repetition, arm in turns(repetitions, arms):
            found = half_load(arm, pool, replace(load, seed=seed + repetition))
            late.setdefault(arm.name, []).append(found)
            progress(
                f"latency {repetition + 1}/{repetitions} {arm.name}: "
                f"p50 {percentile(found, 50):.2f} ms"
            )
            resting.setdefault(arm.name, []).append(idle(arm, pool, idle_seconds))
        versions = sorted(lab.versions.values())
    added = {
        arm.name: {
            f"p{q:g}": spread([percentile(one, q) for one in late[arm.name]]) for q in PERCENTILES
        }
        for arm in arms
    }
    cores = {arm.name: _cores(resting[arm.name]) for arm in arms}
    rows = [
        [
            name,
            *(of.median for of in added[name].values()),
            *(f"{of.median:.2%}" for of in cores[name].values()),
        ]
        for name in added
    ]
    text = table(["arm", "p50 ms", "p99 ms", "idle scheduler", "idle worker", "idle server"], rows)
    emit(
        "\n".join([text, *not_run(missing)]),
        {
            "experiment": "latency",
            "added_ms": {
                name: {word: of.median for word, of in by.items()} for name, by in added.items()
            },
            "added_ms_spread": {
                name: {word: of._asdict() for word, of in by.items()} for name, by in added.items()
            },
            "idle_cores": {
                name: {word: of.median for word, of in by.items()} for name, by in cores.items()
            },
            "load": {**asdict(load), "pool": pool},
            "raw_ms": {
                name: [[round(value, 3) for value in one] for one in kept]
                for name, kept in late.items()
            },
            "repetitions": repetitions,
            "missing": missing,
            "environment": {**start, "servers": versions},
        },
        as_json,
        save,
    )


def _cores(kept: list[Idle]) -> dict[str, Spread]:
    """Return the spread of each process's share of a core."""
    return {word: spread([getattr(each, word) for each in kept]) for word in asdict(kept[0])}
