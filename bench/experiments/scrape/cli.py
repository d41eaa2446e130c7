"""``python -m bench scrape``: the plan of the runs, and the report made from them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from bench.experiments.scrape.backlog import Scrapes, scrapes
from bench.experiments.scrape.counting import counting
from bench.experiments.scrape.drained import Drain, drained
from bench.experiments.scrape.worker_app import KINDS
from bench.harness import environment
from bench.harness.arms import TQArm
from bench.harness.cluster import POOLS
from bench.harness.measure import Spread, spread
from bench.harness.options import common, repetitions, server_kind
from bench.harness.report import emit, progress, table
from bench.harness.servers import redis_server

__all__ = ["command"]


@click.command("scrape")
@click.option("--pending", default=100_000, show_default=True, type=click.IntRange(1))
@click.option("--tenants", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--scrapes", "times", default=200, show_default=True, type=click.IntRange(1))
@click.option("--tasks", default=200_000, show_default=True, type=click.IntRange(100))
@click.option(
    "--block",
    default=0.25,
    show_default=True,
    type=click.FloatRange(0.01),
    help="Seconds of a block of a drain.",
)
@click.option(
    "--every",
    default=5.0,
    show_default=True,
    type=click.FloatRange(0.01),
    help="Seconds of blocks with metrics between two scrapes.",
)
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
    block: float,
    every: float,
    pool: str,
    settled: int,
    seed: int,
    repetitions: int,
    server: str,
    as_json: bool,
    save: Path | None,
) -> None:
    """Time scrapes over a long backlog; empty a queue with metrics and without, in turns."""
    start = environment.describe()
    taken: list[Scrapes] = []
    drains: list[Drain] = []
    with redis_server(server) as redis:
        for number in range(repetitions):
            taken.append(scrapes(redis, pending, tenants, times, "wfq", seed + number))
            progress(
                f"scrape {number + 1}/{repetitions}: p50 {taken[-1].p50:.1f} ms, "
                f"p99 {taken[-1].p99:.1f} ms"
            )
        for number in range(repetitions):
            drains.append(drained(TQArm(redis), tasks, pool, block, every))
            each = drains[-1].shares
            progress(
                f"drain {number + 1}/{repetitions}: {drains[-1].rounds} rounds, "
                + ", ".join(f"{kind} {each[kind].rate:,.0f}/s" for kind in KINDS)
            )
        whole, counters = counting(redis, settled, tenants, seed)
        version = redis.version
    rate, cpu = _ratio(drains, "rate", "on"), _ratio(drains, "cpu_us", "on")
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
            "counters_rate_ratio": _ratio(drains, "rate", "counters")._asdict(),
            "counters_cpu_ratio": _ratio(drains, "cpu_us", "counters")._asdict(),
            "complete_us": whole._asdict(),
            "counters_us": counters._asdict(),
            "raw": {
                "scrapes": [asdict(run) for run in taken],
                "drains": [asdict(run) for run in drains],
            },
            "pending": pending,
            "tenants": tenants,
            "tasks": tasks,
            "block": block,
            "every": every,
            "pool": pool,
            "repetitions": repetitions,
            "seed": seed,
            "environment": {**start, "servers": [version]},
        },
        as_json,
        save,
    )


def _ratio(drains: list[Drain], field: str, kind: str) -> Spread:
    """Return a figure of the blocks of ``kind`` over that of ``off``, drain by drain."""
    return spread([getattr(each.ratios[kind], field) for each in drains])


def _text(
    taken: list[Scrapes], drains: list[Drain], rate: Spread, cpu: Spread,
    whole: Spread, counters: Spread,
) -> str:  # fmt: skip
    rows = [
        [name, *spread([getattr(run, name) for run in taken])] for name in ("p50", "p99", "longest")
    ]
    figures: list[list[object]] = [
        [f"{what}, {kind}", *spread([getattr(each.shares[kind], field) for each in drains])]
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
