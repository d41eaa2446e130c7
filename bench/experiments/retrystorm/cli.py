"""``python -m bench retrystorm``: the most retries in one window, by kind of back-off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bench.experiments.retrystorm.app import ARMS
from bench.experiments.retrystorm.chart import draw
from bench.experiments.retrystorm.fleet import Fleet
from bench.experiments.retrystorm.moments import BASE, CAP, Moments
from bench.experiments.retrystorm.run import storm
from bench.experiments.retrystorm.windows import fewer, fullest
from bench.harness import environment
from bench.harness.errors import BenchError
from bench.harness.measure import spread
from bench.harness.options import common, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.servers import redis_server
from bench.harness.turns import turns

__all__ = ["command"]

OURS = "decorrelated"
Kept = dict[str, list[Moments]]


@click.command("retrystorm")
@click.option(
    "--tasks", default=1_000, show_default=True, type=click.IntRange(10),
    help="Tasks that fail at one moment.",
)  # fmt: skip
@click.option(
    "--failures", default=4, show_default=True, type=click.IntRange(1),
    help="Times each of them fails.",
)  # fmt: skip
@click.option("--window", default=10.0, show_default=True, type=float, help="Milliseconds.")
@click.option("--repetitions", default=5, show_default=True, type=click.IntRange(1))
@click.option(
    "--worker-repetitions", default=1, show_default=True, type=click.IntRange(0),
    help="Repetitions with Celery's worker in the place of the fleet.",
)  # fmt: skip
@click.option("--seed", default=1, show_default=True, type=int)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Draw into this PNG.")
@server_kind
@common
def command(
    tasks: int,
    failures: int,
    window: float,
    repetitions: int,
    worker_repetitions: int,
    seed: int,
    plot: Path | None,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Let many tasks fail at one moment, and count the most retries in one 10 ms window."""
    start = environment.describe()
    width = window / 1000
    with redis_server(server) as redis:
        fleet = _measure(
            "fleet", repetitions, width, lambda name, number:
            Fleet(redis, name, tasks, failures, seed + number).run(),
        )  # fmt: skip
        worker = _measure(
            "worker", worker_repetitions, width, lambda name, number:
            storm(redis, name, tasks, failures, seed + number),
        )  # fmt: skip
        version = redis.version
    if plot is not None:
        try:
            draw({name: fleet[name][-1] for name in ARMS}, plot)
        except OSError as error:
            raise BenchError(f"the chart was not written: {error}") from error
    peaks = {"fleet": _peaks(fleet, width), "worker": _peaks(worker, width)}
    headers = ["", "peak", "min", "max", "ours fewer", "min", "max", "peak planned", "all in s"]
    emit(
        table(headers, [*_rows("fleet", fleet, peaks), *_rows("worker", worker, peaks)]),
        {
            "experiment": "retrystorm",
            "peaks": peaks,
            "fewer": {kind: _fewer(of["started"]) for kind, of in peaks.items()},
            "raw": {name: _after(runs[-1]) for name, runs in fleet.items()},
            "load": {
                "tasks": tasks, "failures": failures, "window_ms": window, "base_s": BASE,
                "cap_s": CAP, "seed": seed,
            },
            "repetitions": {"fleet": repetitions, "worker": worker_repetitions},
            "environment": {**start, "servers": [version]},
        },
        as_json,
        save,
    )  # fmt: skip


def _measure(kind: str, count: int, width: float, run: Callable[[str, int], Moments]) -> Kept:
    """Run every arm so often; their order turns round every repetition."""
    kept: Kept = {name: [] for name in ARMS}
    for repetition, name in turns(count, tuple(ARMS)):
        moments = run(name, repetition)
        kept[name].append(moments)
        peak = fullest(moments.started, width)
        progress(f"retrystorm {kind} {repetition + 1}/{count} {name}: {peak} at most")
    return kept


def _peaks(kept: Kept, width: float) -> dict[str, dict[str, list[int]]]:
    return {
        word: {name: [fullest(getattr(each, word), width) for each in runs]
               for name, runs in kept.items()}
        for word in ("due", "started")
    }  # fmt: skip


def _fewer(started: dict[str, list[int]]) -> dict[str, dict[str, float]]:
    return {
        name: spread(fewer(started[OURS], theirs))._asdict()
        for name, theirs in started.items()
        if name != OURS and theirs
    }


def _rows(kind: str, kept: Kept, peaks: dict[str, Any]) -> list[list[object]]:
    started, due = peaks[kind]["started"], peaks[kind]["due"]
    less = _fewer(started)
    return [
        [
            f"{kind}, {name}",
            *spread(started[name]),
            *([f"{share:.0%}" for share in less[name].values()] if name in less else ["-"] * 3),
            spread(due[name]).median,
            max(max(each.started) - min(each.failed) for each in runs),
        ]
        for name, runs in kept.items()
        if runs
    ]


def _after(moments: Moments) -> list[float]:
    began = min(moments.failed)
    return sorted(round(at - began, 4) for at in moments.started)
