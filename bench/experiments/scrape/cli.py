"""``python -m bench scrape``: the plan of the runs, and the report made from them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from bench.experiments.drain.run import Run
from bench.experiments.scrape.backlog import Scrapes, scrapes
from bench.experiments.scrape.counting import counting
from bench.experiments.scrape.drained import drained
from bench.harness import environment
from bench.harness.arms import TQArm
from bench.harness.cluster import POOLS
from bench.harness.measure import Spread, paired_ratio, spread
from bench.harness.options import common, repetitions, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.servers import redis_server
from bench.harness.turns import turns

__all__ = ["command"]

KINDS = ("on", "off")


@click.command("scrape")
@click.option("--pending", default=100_000, show_default=True, type=click.IntRange(1))
@click.option("--tenants", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--scrapes", "times", default=200, show_default=True, type=click.IntRange(1))
@click.option("--tasks", default=100_000, show_default=True, type=click.IntRange(100))
@click.option("--every", default=5.0, show_default=True, help="Seconds between scrapes of a drain.")
@click.option("--pool", default="threads", show_default=True, type=click.Choice(tuple(POOLS)))
@click.option("--settled", default=40_000, show_default=True, type=click.IntRange(1_024))
@click.option("--seed", default=1, show_default=True, type=int)
@repetitions(5)
@server_kind
@common
def command(
    pending: int,
    tenants: int,
    times: int,
    tasks: int,
    every: float,
    pool: str,
    settled: int,
    seed: int,
    repetitions: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Time scrapes over a long backlog; empty a queue with metrics and without."""
    start = environment.describe()
    taken: list[Scrapes] = []
    drains: dict[str, list[Run]] = {kind: [] for kind in KINDS}
    with redis_server(server) as redis:
        for number in range(repetitions):
            taken.append(scrapes(redis, pending, tenants, times, "wfq", seed + number))
            progress(
                f"scrape {number + 1}/{repetitions}: p50 {taken[-1].p50:.1f} ms, "
                f"p99 {taken[-1].p99:.1f} ms"
            )
        arm = TQArm(redis)
        for number, kind in turns(repetitions, KINDS):
            run = drained(arm, tasks, pool, every if kind == "on" else None)
            drains[kind].append(run)
            progress(
                f"drain {number + 1}/{repetitions} metrics {kind}: {run.rate:,.0f}/s, "
                f"CPU {run.cpu_us:.1f} us a task"
            )
        whole, counters = counting(redis, settled, tenants, seed)
        version = redis.version
    rate = paired_ratio(*([run.rate for run in drains[kind]] for kind in KINDS))
    cpu = paired_ratio(*([run.cpu_us for run in drains[kind]] for kind in KINDS))
    emit(
        _text(taken, drains, rate, cpu, whole, counters),
        {
            "experiment": "scrape",
            "scrape_ms": {
                name: spread([getattr(run, name) for run in taken])._asdict()
                for name in ("p50", "p99", "longest")
            },
            "series": taken[-1].series,
            "bytes": taken[-1].bytes,
            "rate_ratio": rate._asdict(),
            "cpu_ratio": cpu._asdict(),
            "complete_us": whole._asdict(),
            "counters_us": counters._asdict(),
            "raw": {
                "scrapes": [asdict(run) for run in taken],
                **{kind: [asdict(run) for run in runs] for kind, runs in drains.items()},
            },
            "pending": pending,
            "tenants": tenants,
            "tasks": tasks,
            "every": every,
            "pool": pool,
            "repetitions": repetitions,
            "seed": seed,
            "environment": {**start, "servers": [version]},
        },
        as_json,
        save,
    )


def _text(
    taken: list[Scrapes], drains: dict[str, list[Run]], rate: Spread, cpu: Spread,
    whole: Spread, counters: Spread,
) -> str:  # fmt: skip
    rows = [
        [name, *spread([getattr(run, name) for run in taken])] for name in ("p50", "p99", "longest")
    ]
    figures: list[list[object]] = [
        [f"{what}, metrics {kind}", *spread([getattr(run, field) for run in drains[kind]])]
        for what, field in (("tasks/s", "rate"), ("CPU us a task", "cpu_us"))
        for kind in KINDS
    ]
    figures += [
        ["script us a settled task", *whole],
        ["of these for counters", *counters],
    ]
    share = "{median:+.2%} ({min:+.2%}..{max:+.2%})"
    less = Spread(*(1 - each for each in (rate.median, rate.max, rate.min)))
    more = Spread(*(each - 1 for each in cpu))
    return "\n".join(
        [
            table(["scrape, ms", "median", "min", "max"], rows),
            f"{taken[-1].series} series, {taken[-1].bytes:,} bytes",
            table(["drain", "median", "min", "max"], figures),
            "metrics cost " + share.format(**less._asdict()) + " of the rate, "
            + share.format(**more._asdict()) + " CPU",
        ]
    )  # fmt: skip
